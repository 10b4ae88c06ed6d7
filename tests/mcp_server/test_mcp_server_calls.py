import asyncio
import base64
import json
from functools import partial

import mcp_types
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from leonidas_tools import ToolContext, ToolError, ToolResult, tool
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.request import Decision
from leonidas_tools.calls.call import Media
from tests.mcp.forking import forked
from tests.mcp_server.conftest import MODES, SECONDS


@tool(effect="read")
def add(a: int, b: int = 1) -> int:
    """Adds two numbers.

    Args:
        a: One.
        b: The other.
    """
    return a + b


@tool(effect="idempotent", name="set light")
def set_light(on: bool) -> dict:
    """Switches the light."""
    return {"on": on}


class Bank:
    """A tool that moves money, and what it has moved."""

    def __init__(self, **options):
        self.moved = []
        self.begun, self.go, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.tool = tool(**{"effect": "once", "requires_approval": False, **options})(self.pay)

    async def pay(self, amount: int) -> str:
        """Moves money."""
        self.begun.set()
        await self.go.wait()
        self.moved.append(amount)
        self.ended.set()
        return "moved"


def answer_of(answer):
    """The envelope that the text of an answer holds."""
    return json.loads(answer.content[0].text)


@MODES
async def test_tools_are_listed_with_their_schema_their_title_and_what_they_change(serve, mode):
    serving = await serve(add, set_light)
    client = await serving.client(mode)
    listed = (await client.list_tools()).tools
    assert [tool.model_dump(exclude_none=True, by_alias=True) for tool in listed] == [
        {
            "name": "add",
            "title": "Add",
            "description": "Adds two numbers.",
            "inputSchema": add.metadata.parameters,
            "annotations": {"readOnlyHint": True},
        },
        {
            "name": "set_light",
            "title": "Set light",
            "description": "Switches the light.",
            "inputSchema": set_light.metadata.parameters,
            "annotations": {"readOnlyHint": False, "idempotentHint": True},
        },
    ]


@MODES
async def test_a_call_is_answered_with_text_and_structured_content(serve, mode):
    client = await (await serve(add, set_light)).client(mode)
    assert (await client.call_tool("add", {"a": "2"})).structured_content == {"result": 3}
    assert (await client.call_tool("add", {"a": 2})).content[0].text == "3"
    lit = await client.call_tool("set_light", {"on": True})
    assert (lit.structured_content, lit.content[0].text) == ({"on": True}, '{"on": true}')


@MODES
async def test_pictures_and_sounds_are_content_of_their_own(serve, mode):
    @tool
    def show() -> ToolResult:
        """Shows."""
        kinds = ("image/png", "audio/wav")
        return ToolResult(result="both", media=[Media(mime_type=k, data=b"x") for k in kinds])

    client = await (await serve(show)).client(mode)
    text, image, audio = (await client.call_tool("show", {})).content
    data = base64.b64encode(b"x").decode()
    assert text.text == "both"
    assert (image.type, image.mime_type, image.data) == ("image", "image/png", data)
    assert (audio.type, audio.mime_type, audio.data) == ("audio", "audio/wav", data)


@MODES
@pytest.mark.parametrize(
    ("name", "arguments", "status"),
    [
        ("refuse", {}, "failed"),
        ("crash", {}, "failed"),
        ("dawdle", {}, "timeout"),
        ("add", {"a": "two"}, "invalid_argument"),
        ("add", {"c": 1}, "invalid_argument"),
        ("off", {}, "disabled"),
        ("never", {}, "denied"),
    ],
)
async def test_what_did_not_work_is_an_error_with_the_whole_envelope(
    serve, mode, name, arguments, status
):
    def refuse() -> str:
        raise ToolError("Not today.")

    def crash() -> str:
        raise RuntimeError("s3cret")

    async def dawdle() -> str:
        await asyncio.Event().wait()

    def off() -> str:
        return "off"

    def never() -> str:
        return "never"

    config = {
        "tools": {"dawdle": {"timeout": 0.05, "effect": "read"}, "off": {"enabled": False}},
        "policies": {"rules": [{"name": "no", "decide": "deny", "tools": "never"}]},
    }
    serving = await serve(add, refuse, crash, dawdle, off, never, config=config)
    client = await serving.client(mode)
    answer = await client.call_tool(name, arguments)
    assert (answer.is_error, answer_of(answer)["status"]) == (True, status)
    assert "s3cret" not in str(answer)
    listed = {tool.name for tool in (await client.list_tools()).tools}
    assert listed == {"add", "refuse", "crash", "dawdle"}


@MODES
@pytest.mark.parametrize("name", ["ad", "think", "confirm_action", "set_light", ""])
async def test_what_is_not_offered_is_unknown(serve, mode, name):
    bank = Bank(requires_approval=True)  # so that there is a confirm_action
    serving = await serve(add, set_light, bank.tool, patterns=["add", "pay", "confirm_action"])
    client = await serving.client(mode)
    with pytest.raises(MCPError, match="Unknown tool") as unknown:
        await client.call_tool(name, {})
    assert unknown.value.code == mcp_types.INVALID_PARAMS
    assert {tool.name for tool in (await client.list_tools()).tools} == {"add", "pay"}


async def test_that_a_tool_is_unknown_is_said_in_the_words_of_the_settings(serve):
    texts = {"mcp_serve_unknown_tool": "Não há {tool}", "mcp_serve_closest_tool": ", há {closest}"}
    client = await (await serve(add, config={"texts": texts})).client()
    with pytest.raises(MCPError, match=r"^Não há ad, há add$"):
        await client.call_tool("ad", {})


@MODES
async def test_progress_is_reported_and_only_grows(serve, mode):
    @tool(effect="read")
    async def build(ctx: ToolContext) -> str:
        """Builds."""
        ctx.progress("walls", fraction=0.25)
        ctx.progress("doors")
        ctx.progress(fraction=0.5)
        return "built"

    told = []

    async def on_progress(progress, total, message):
        told.append((progress, total, message))

    client = await (await serve(build)).client(mode)
    await client.call_tool("build", {}, progress_callback=on_progress)
    amounts = [amount for amount, _, _ in told]
    assert (amounts[0], amounts[2], sorted(set(amounts))) == (0.25, 0.5, amounts)
    assert [(total, message) for _, total, message in told] == [
        (1.0, "walls"),
        (1.0, "doors"),
        (1.0, None),
    ]


@MODES
async def test_a_cancelled_call_stops_where_nothing_is_left_half_done(serve, mode):
    begun, stopped = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def look() -> str:
        """Looks for ever."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    client = await (await serve(look, add)).client(mode)
    async with asyncio.timeout(SECONDS):
        looking = asyncio.create_task(client.call_tool("look", {}))
        await begun.wait()
        looking.cancel()
        await stopped.wait()
    assert (await client.call_tool("add", {"a": 1})).content[0].text == "2"


@MODES
async def test_a_cancelled_call_that_happens_once_is_finished(serve, mode):
    bank = Bank()
    client = await (await serve(bank.tool)).client(mode)
    async with asyncio.timeout(SECONDS):
        paying = asyncio.create_task(client.call_tool("pay", {"amount": 5}))
        await bank.begun.wait()
        paying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await paying
        await client.list_tools()  # by now the server has heard of it
        bank.go.set()
        await bank.ended.wait()
    assert bank.moved == [5]


@MODES
async def test_limits_count_for_each_client_by_itself(serve, mode):
    serving = await serve(add, config={"tools": {"add": {"calls_per_session": 1}}})
    for name in ("one", "other"):
        info = mcp_types.Implementation(name=name, version="1")
        client = await serving.client(mode, client_info=info)
        assert not (await client.call_tool("add", {"a": 1})).is_error
        assert answer_of(await client.call_tool("add", {"a": 2}))["status"] == "limited"


@MODES
async def test_a_client_has_only_so_many_calls_at_once(serve, mode):
    bank = Bank()
    serving = await serve(bank.tool, add, config={"policies": {"calls": {"at_once": 1}}})
    client = await serving.client(mode)
    async with asyncio.timeout(SECONDS):
        paying = asyncio.create_task(client.call_tool("pay", {"amount": 5}))
        await bank.begun.wait()
        refused = answer_of(await client.call_tool("add", {"a": 1}))
        assert (refused["status"], refused["reason_code"]) == ("limited", "calls_at_once")
        bank.go.set()
        await paying
    assert not (await client.call_tool("add", {"a": 1})).is_error


class Changes:
    """What a client hears of other tools, in whichever protocol."""

    def __init__(self):
        self._heard = asyncio.Queue()
        self._listening = None

    async def on_message(self, message):
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._heard.put_nowait(message)

    async def listen(self, client, mode):
        """Opens the stream of the newer protocol; the older one opens its own some time."""
        if mode == "auto":
            opened = asyncio.Event()
            self._listening = asyncio.create_task(self._listen(client, opened))
            await opened.wait()

    async def _listen(self, client, opened):
        async with client.listen(tools_list_changed=True) as stream:
            opened.set()
            async for change in stream:
                self._heard.put_nowait(change)

    async def heard(self):
        """Waits for the next, and takes those that have come with it."""
        await self._heard.get()
        while not self._heard.empty():
            self._heard.get_nowait()

    async def close(self):
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait({self._listening})


@MODES
async def test_a_client_is_notified_when_other_tools_are_offered(serve, mode, tmp_path):
    file = tmp_path / "tools.yaml"
    file.write_text("version: 1\n")
    serving, changes = await serve(add, set_light, config=file), Changes()
    client = await serving.client(mode, message_handler=changes.on_message)
    assert client.server_capabilities.tools.list_changed

    async def names():
        return {tool.name for tool in (await client.list_tools()).tools}

    async with asyncio.timeout(SECONDS):
        assert await names() == {"add", "set_light"}
        await changes.listen(client, mode)
        registry, added = serving.tools.registry, []
        hearing = asyncio.create_task(changes.heard())
        while not hearing.done():  # nobody is told before his stream is open
            added.append(registry.register(add, name=f"add_{len(added)}").name)
            await asyncio.wait({hearing}, timeout=0.2)
        assert await names() == {"add", "set_light", *added}
        for name in added:
            registry.unregister(name)
        while await names() != {"add", "set_light"}:
            await changes.heard()
        file.write_text("version: 1\ntools: {add: {enabled: false}}\n")
        while await names() != {"set_light"}:
            await changes.heard()
    await changes.close()


# --- a person's word ----------------------------------------------------------------------------


def person(*answers):
    """A client's user, who answers so; and the questions that were put."""
    questions, left = [], list(answers)

    async def answer(_context, params):
        questions.append(params)
        said = left.pop(0)
        return said if isinstance(said, mcp_types.ErrorData) else mcp_types.ElicitResult(**said)

    return answer, questions


YES = {"action": "accept", "content": {"approve": True}}


@MODES
async def test_a_tool_that_asks_runs_once_the_user_of_the_client_has_said_yes(serve, mode):
    bank = Bank(requires_approval=True)
    bank.go.set()
    answer, questions = person(YES)
    client = await (await serve(bank.tool)).client(mode, elicitation_callback=answer)
    paid = await client.call_tool("pay", {"amount": 5})
    assert (paid.content[0].text, bank.moved) == ("moved", [5])
    [question] = questions
    assert question.message == 'Shall I do this: pay, amount 5?\n\npay {"amount": 5}'
    assert question.requested_schema["required"] == ["approve"]


@MODES
async def test_the_user_of_the_client_sees_all_of_what_runs(serve, mode):
    ran = []

    @tool(requires_approval=True)
    def run(line: str) -> str:
        ran.append(line)
        return "ran"

    answer, questions = person(YES)
    client = await (await serve(run)).client(mode, elicitation_callback=answer)
    line = "a" * 3_000 + "\u202e; rm -r ~ #" + "b" * 3_000
    await client.call_tool("run", {"line": line})
    assert ran == [line]
    assert line.replace("\u202e", "<U+202E>") in questions[0].message


@MODES
@pytest.mark.parametrize(
    ("said", "reason_code"),
    [
        ({"action": "decline"}, "refused"),
        ({"action": "cancel"}, "refused"),
        ({"action": "accept", "content": {"approve": False}}, "refused"),
        ({"action": "accept", "content": {"approve": "yes"}}, "refused"),
        ({"action": "accept", "content": {}}, "refused"),
        ({"action": "accept"}, "refused"),
    ],
)
async def test_anything_but_a_clear_yes_is_a_no(serve, mode, said, reason_code):
    bank = Bank(requires_approval=True)
    answer, _ = person(said)
    client = await (await serve(bank.tool)).client(mode, elicitation_callback=answer)
    refused = answer_of(await client.call_tool("pay", {"amount": 5}))
    assert (refused["status"], refused["reason_code"]) == ("denied", reason_code)
    assert bank.moved == []


@MODES
async def test_a_client_that_cannot_ask_is_denied_at_once(serve, mode):
    bank = Bank(requires_approval=True)
    config = {"policies": {"approval": {"on_expiry": "proceed"}}}
    client = await (await serve(bank.tool, config=config)).client(mode)
    refused = answer_of(await client.call_tool("pay", {"amount": 5}))
    assert (refused["status"], refused["reason_code"]) == ("denied", "approval_failed")
    assert "the MCP client cannot ask its user" in refused["message"]
    assert bank.moved == []


async def test_a_client_whose_asking_fails_is_denied(serve):
    bank = Bank(requires_approval=True)
    answer, _ = person(mcp_types.ErrorData(code=-32603, message="no"))
    client = await (await serve(bank.tool)).client("legacy", elicitation_callback=answer)
    refused = answer_of(await client.call_tool("pay", {"amount": 5}))
    assert (refused["status"], refused["reason_code"]) == ("denied", "approval_failed")


async def asked(client, **more):
    """The call of `pay` up to the question, in the newer protocol."""
    return await client.session.call_tool("pay", {"amount": 5}, allow_input_required=True, **more)


async def test_a_yes_counts_for_its_own_call_and_once(serve):
    bank = Bank(requires_approval=True)
    bank.go.set()
    answer, _ = person()
    client = await (await serve(bank.tool)).client(elicitation_callback=answer)
    question = await asked(client)
    yes = {"approval": mcp_types.ElicitResult(**YES)}
    state = question.request_state
    with pytest.raises(MCPError, match="belongs to another call"):
        await client.session.call_tool(
            "pay",
            {"amount": 500},
            allow_input_required=True,
            input_responses=yes,
            request_state=state,
        )
    assert bank.moved == []
    paid = await asked(client, input_responses=yes, request_state=state)
    assert (paid.content[0].text, bank.moved) == ("moved", [5])
    again = await asked(client, input_responses=yes, request_state=state)
    assert isinstance(again, mcp_types.InputRequiredResult)
    made_up = await asked(client, input_responses=yes, request_state="made up")
    assert isinstance(made_up, mcp_types.InputRequiredResult)
    assert bank.moved == [5]


async def test_a_yes_to_a_question_that_was_answered_elsewhere_is_none_to_the_next_one(serve):
    rule = {"name": "wiping", "decide": "ask", "tools": "wipe"}
    servers = {"lab": forked("asking.py")}
    serving = await serve(config={"mcp_servers": servers, "policies": {"rules": [rule]}})
    answer, _ = person()
    client = await serving.client(elicitation_callback=answer)
    assert await serving.tools.ready(SECONDS)
    questions, are_two = [], asyncio.Event()

    def hear(event):
        if event.kind == "tool_approval_request":
            questions.append((event.call.session, event.data["approval_id"]))
            if len(questions) == 2:
                are_two.set()

    serving.tools.monitor.subscribe(hear)
    wipe = partial(client.session.call_tool, "wipe", {}, allow_input_required=True)
    first = await wipe()
    ((session, approval_id),) = questions
    session.get(Approvals).decide(approval_id, Decision.approve(), by="console")
    async with asyncio.timeout(SECONDS):
        await are_two.wait()
    yes = {"approval": mcp_types.ElicitResult(**YES)}
    second = await wipe(input_responses=yes, request_state=first.request_state)
    assert isinstance(second, mcp_types.InputRequiredResult)
    assert "Are you sure?" in second.input_requests["approval"].params.message
    wiped = await wipe(input_responses=yes, request_state=second.request_state)
    assert wiped.structured_content == {"result": "accept"}


async def test_an_unanswered_question_is_closed(serve):
    bank = Bank(requires_approval=True)
    config = {"policies": {"approval": {"deadline": 0.05}}}
    answer, _ = person()
    serving = await serve(bank.tool, config=config)
    client = await serving.client(elicitation_callback=answer)
    ended = asyncio.Event()
    serving.tools.monitor.subscribe(lambda event: event.ends_call and ended.set())
    question = await asked(client)
    async with asyncio.timeout(SECONDS):
        await ended.wait()
    yes = {"approval": mcp_types.ElicitResult(**YES)}
    late = await asked(client, input_responses=yes, request_state=question.request_state)
    assert answer_of(late)["reason_code"] == "approval_expired"
    assert bank.moved == []


async def test_a_server_that_ends_waits_for_no_answer(serve, caplog):
    bank = Bank(requires_approval=True)
    answer, _ = person()
    serving = await serve(bank.tool)
    client = await serving.client(elicitation_callback=answer)
    await asked(client)
    await serving.leave(client)
    await serving.stop()
    assert "were still under way" not in caplog.text
    assert bank.moved == []


async def test_a_rule_denies_here_as_everywhere(serve):
    bank = Bank()
    config = {"policies": {"mode": "read_only"}}
    serving = await serve(bank.tool, add, config=config)
    client = await serving.client()
    assert [tool.name for tool in (await client.list_tools()).tools] == ["add"]
    assert answer_of(await client.call_tool("pay", {"amount": 5}))["status"] == "denied"


async def test_a_client_in_the_same_process_is_served_too():
    from leonidas_tools import AdvancedToolProcessor
    from leonidas_tools.mcp_server.server import ToolServer

    server = ToolServer(AdvancedToolProcessor(tools=[add]))
    async with server, Client(server.mcp) as client:
        assert (await client.call_tool("add", {"a": 1})).content[0].text == "2"


@tool(effect="read", description="Lists caf\udce9")
async def list_files(ctx: ToolContext, fail: bool = False) -> list:
    ctx.progress("caf\udce9", **{"\ud800": 1})
    if fail:
        raise ToolError("There is no caf\udce9")
    return ["caf\udce9", {"\ud800": 1}]


@MODES
async def test_lone_surrogates_are_replaced_in_all_that_a_client_is_sent(serve, mode):
    serving = await serve(list_files)
    client = await serving.client(mode)
    (listed,) = (await client.list_tools()).tools
    assert listed.description == "Lists caf\ufffd"
    async with asyncio.timeout(SECONDS):
        answer = await client.call_tool("list_files", {})
        failed = await client.call_tool("list_files", {"fail": True})
    assert answer.structured_content == {"result": ["caf\ufffd", {"\ufffd": 1}]}
    assert answer_of(failed)["message"] == "There is no caf\ufffd"
