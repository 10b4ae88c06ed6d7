"""What the server that clients are tested with asks, is told, and offers besides its tools."""

import pytest

from leonidas_tools.approvals.request import Decision
from tests.mcp.asked import answering, call
from tests.mcp.real.everything import everything

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def server(place):
    return everything(place).settings


async def test_the_resources_and_prompts_of_a_server_are_tools_where_wanted(chain, server):
    tools = await chain({**server, "resources": True, "prompts": True})
    names = [name for name in tools.mcp_servers.status()[0]["tools"] if name.startswith("lab__")]
    assert names == [
        "lab__list_resources",
        "lab__read_resource",
        "lab__list_prompts",
        "lab__get_prompt",
    ]
    assert {tools.registry[name].metadata.effect for name in names} == {"read"}
    listed = (await call(tools, "lab__list_resources")).result
    uris = [each["uri"] for each in listed["resources"]]
    assert "demo://resource/static/document/features.md" in uris
    assert {"uriTemplate", "name"} <= listed["templates"][0].keys()
    read = await call(tools, "lab__read_resource", uri=uris[0])
    assert read.result.startswith("#")
    unknown = await call(tools, "lab__read_resource", uri="demo://nothing")
    assert (unknown.status, unknown.reason_code) == ("not_found", "unknown_resource")
    prompts = (await call(tools, "lab__list_prompts")).result["prompts"]
    assert "args-prompt" in [each["name"] for each in prompts]
    told = {"name": "args-prompt", "arguments": {"city": "Porto"}}
    (message,) = (await call(tools, "lab__get_prompt", **told)).result["messages"]
    assert (message["role"], "Porto" in message["text"]) == ("user", True)
    wrong = await call(tools, "lab__get_prompt", name="nothing")
    assert (wrong.status, wrong.reason_code) == ("invalid_argument", "unknown_prompt")


async def test_they_are_no_tools_where_they_are_not_wanted(chain, server):
    tools = await chain(server)
    assert "lab__list_resources" not in tools.registry


async def test_the_server_that_clients_are_tested_with_is_answered(chain, server):
    person, asked = answering(Decision.fill({"name": "Ana"}))
    tools = await chain(server, approval=person)
    elicited = await call(tools, "trigger-elicitation-request")
    assert "- Name: Ana" in elicited.result
    assert len(asked) == 1
