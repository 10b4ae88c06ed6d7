"""What a server of the older protocol asks, which does not say about which call."""

import asyncio

import pytest

from leonidas_tools import ToolSession
from leonidas_tools.approvals.request import Decision
from leonidas_tools.errors import ToolDeniedError
from tests.mcp.asked import Person, said
from tests.mcp.forking import forked


async def test_a_server_of_the_older_protocol_is_answered_too(lab):
    bench = await lab("older.py", approval=Person(Decision.fill({"name": "Ana"})))
    assert said(await bench.call("ask")) == {"action": "accept", "content": {"name": "Ana"}}


@pytest.mark.parametrize(
    "more", [{"additionalProperties": True}, {"patternProperties": {"": {"type": "string"}}}]
)
async def test_an_answer_with_more_than_was_asked_for_does_not_fit(lab, more):
    answers = {"name": "Ana", "notes": "All that I know."}
    person = Person(Decision.fill(answers), Decision.fill({"name": "Ana"}))
    bench = await lab("older.py", approval=person)
    assert said(await bench.call("ask", schema=more))["content"] == {"name": "Ana"}
    assert "'notes'" in person.asked[1].problem


async def test_a_page_to_open_is_asked_about_with_its_host(lab):
    person = Person(Decision.approve())
    bench = await lab("older.py", approval=person)
    assert said(await bench.call("page")) == {"action": "accept"}
    (request,) = person.asked
    assert request.title == "The server 'lab' asks you to open a page at pay.example: Pay"
    assert request.details["url"] == "https://pay.example/x"


TWO_FACED = [
    "https://evil.example\\@pay.example/",  # a browser opens evil.example
    "https:\\\\evil.example/pay.example",
    "https:///evil.example",
    "https://pay.example@evil.example/",
    "https://pay.example:pw@evil.example/",
    "https://pay.example%2eevil.example/",
    "https://p\u0430y.example/",  # a Cyrillic letter
    "https://evil.example\u3002pay.example/",
    "https://pay.exam\tple/",
    "https://pay.example/\nhttps://evil.example/",
    "https://pay.example/\u202egnp.exe",
    "https://pay.example;evil.example/",
    "javascript:alert(1)//https://pay.example",
    "file:///etc/passwd",
    "data:text/html,x",
]


@pytest.mark.parametrize("url", TWO_FACED)
async def test_a_page_whose_host_is_not_clear_is_not_asked_about(lab, url):
    person = Person()
    bench = await lab("older.py", approval=person)
    assert said(await bench.call("page", url=url)) == {"action": "decline"}
    assert person.asked == []


@pytest.mark.parametrize(
    "place", ["pay.example:8443", "127.0.0.1", "[::1]:80", "xn--pay-xyz.example"]
)
async def test_a_page_with_a_port_or_an_address_is_asked_about(lab, place):
    person = Person(Decision.approve())
    bench = await lab("older.py", approval=person)
    url = f"https://{place}/x?y=%20z#é"
    assert said(await bench.call("page", url=url)) == {"action": "accept"}
    assert person.asked[0].details["url"] == url


async def test_two_questions_at_once_are_both_answered(lab):
    names = (Decision.fill({"name": "Ana"}), Decision.fill({"name": "Ben"}))
    bench = await lab("older.py", approval=Person(*names))
    result = (await bench.call("ask_two")).result
    assert result.count('"accept"') == 2


async def test_a_question_that_the_server_takes_back_is_closed_and_its_call_goes_on(lab):
    bench = await lab("older.py", approval=Person())
    assert said(await bench.call("take_back")) == "never mind"
    assert bench.desk.pending() == []


async def test_a_question_of_a_cancelled_call_is_answered(lab):
    bench = await lab("older.py")
    assert (await bench.call("ask")).status == "pending_approval"
    bench.desk.withdraw_all()
    assert said(await bench.call("told")) == {"action": "cancel"}


async def test_no_person_is_asked_while_two_conversations_call(lab, caplog):
    bench = await lab("older.py", approval=Person())
    holding = bench.start("hold")
    other = ToolSession("other")
    while not bench.tools.mcp_servers.status()[0]["calls"]:
        await asyncio.sleep(0)
    async with asyncio.timeout(60):
        result = await bench.tools.execute("ask", session=other)
    assert said(result) == {"action": "decline"}
    assert "the call that it belongs to is unknown" in caplog.text
    holding.cancel()


async def test_a_server_that_is_removed_takes_its_question_away(lab):
    bench = await lab("older.py")
    question = (await bench.call("die")).result["question_id"]
    name, late = await bench.late_result(lambda: bench.tools.mcp_servers.configure({}))
    assert (name, late.status) == ("die", "unknown_outcome")
    with pytest.raises(ToolDeniedError, match="withdrawn"):
        bench.desk.question(question)


@pytest.mark.slow
async def test_a_flood_of_logs_delays_no_call(chain):
    tools = await chain(forked("older.py", tools={"flood": {"timeout": 100}}))
    async with asyncio.timeout(110):
        assert (await tools.execute("flood")).result == "flooded"
