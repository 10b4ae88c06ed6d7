"""Questions on the desk of a session, answered by whoever shows them."""

import asyncio
import json
import textwrap
from typing import Annotated

import pytest
from pydantic import BaseModel

from leonidas_tools import AdvancedToolProcessor, Secret, ToolSession, tool
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.request import Answer, Decision
from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.approvals.terminal import TerminalChannel
from leonidas_tools.errors import ToolDeniedError, ToolValidationError
from leonidas_tools.tools.metadata import fingerprint_of
from tests.approvals.bench import Bank
from tests.live.talking import on_elastic_time


class Person:
    """A channel: somebody who answers when the test says so."""

    def __init__(self, *decisions):
        self.asked = []
        self.decisions = asyncio.Queue()
        for decision in decisions:
            self.decisions.put_nowait(decision)

    async def __call__(self, request):
        self.asked.append(request)
        return await self.decisions.get()


# --- a channel that waits ---------------------------------------------------------------------


async def test_a_call_waits_for_its_channel_and_its_own_time_does_not_count():
    config = {"tools": {"send": {"timeout": "50ms", "deadline": "50ms"}}}
    person = Person()
    bank = Bank(approval=person, config=config)
    calling = bank.start("send", to="Ana", amount=20)
    await bank.until_asked()
    await asyncio.sleep(0.1)  # longer than the call may take
    person.decisions.put_nowait(Decision.approve())
    assert (await calling).to_response() == {
        "status": "ok", "result": {"sent": 20}, "retryable": False,
    }  # fmt: skip
    assert bank.sent == [("Ana", 20)]
    assert "confirm_action" not in bank.tools.registry


async def test_a_request_says_all_that_a_person_needs():
    person = Person(Decision.deny("too much"))
    bank = Bank(approval=person, session=ToolSession("bank", user="ana"))
    result = await bank.tools.execute(
        "send", {"to": "Ana", "amount": "20"}, session=bank.session, call_id="c1"
    )
    (request,) = person.asked
    assert json.loads(json.dumps(request.to_json())) == {
        "id": request.id,
        "tool": "send",
        "title": "Shall I do this: send, to Ana, amount 20?",
        "details": {"to": "Ana", "amount": 20},
        "created": request.created,
        "deadline": request.created + 60,
        "on_expiry": "cancel",
        "session": "bank",
        "user": "ana",
        "call_id": "c1",
        "rule": "requires_approval",
    }
    assert "Ana" not in repr(request).replace(request.title, "")
    assert (result.status, result.reason_code) == ("denied", "refused")
    assert "'too much'" in result.message


async def test_other_arguments_are_reported_to_the_model():
    bank = Bank(approval=Person(Decision.edit({"to": "Ben", "amount": "5"})))
    result = await bank.call("send", to="Ana", amount=20)
    assert bank.sent == [("Ben", 5)]
    assert result.message == (
        "The user has changed the arguments: to is Ben instead of Ana, amount is 5 instead of 20."
    )
    assert result.result["result"] == {"sent": 5}


async def test_other_arguments_that_do_not_fit_are_no_yes():
    bank = Bank(approval=Person(Decision.edit({"to": "Ben", "amount": "much"})))
    assert (await bank.call("send", to="Ana", amount=20)).status == "denied"
    assert bank.sent == []


class Card(BaseModel):
    number: str
    check: Annotated[str, Secret]


@pytest.mark.parametrize("is_text", [False, True])
async def test_an_edit_keeps_the_secrets_that_it_shows_masked(is_text, monkeypatch, tmp_path):
    monkeypatch.setenv("BANK_KEY", "zebra-4711")
    file = tmp_path / "tools.yaml"
    file.write_text("tools: {pay: {custom_parameters: {key: '${BANK_KEY}'}}}")
    paid = []

    @tool(requires_approval=True)
    async def pay(cards: list[Card], to: str, key: str) -> None:
        paid.append(([(card.number, card.check) for card in cards], to, key))

    shown = [{"number": "1", "check": "***"}, {"number": "2", "check": "***"}]
    edited = {"cards": [{"number": "7", "check": "***"}, shown[1]], "to": "Ben", "key": "***"}
    person = Person(Decision.edit(edited))
    tools = AdvancedToolProcessor([pay], file, approval=person)
    cards: object = [{"number": n, "check": f"{n}23"} for n in "12"]
    given = {"cards": json.dumps(cards) if is_text else cards, "to": "Ana"}
    assert (await tools.execute("pay", given)).ok
    assert person.asked[0].details == {"cards": shown, "to": "Ana", "key": "***"}
    assert paid == [([("7", "123"), ("2", "223")], "Ben", "zebra-4711")]


async def test_always_holds_for_the_tool_and_the_session():
    person = Person(Decision.always())
    bank = Bank(approval=person)
    assert (await bank.call("send", to="Ana", amount=20)).status == "ok"
    assert (await bank.call("send", to="Ben", amount=500)).status == "ok"
    assert len(person.asked) == 1
    assert bank.told("tool_approval_answer")[-1]["decision"] == "always"
    other = bank.tools.execute("send", {"to": "Cy", "amount": 1}, session=ToolSession("other"))
    person.decisions.put_nowait(Decision.deny())
    assert (await other).status == "denied"


async def test_always_is_saved_in_the_file_whose_comments_stay(tmp_path):
    file = tmp_path / "tools.yaml"
    file.write_text(
        textwrap.dedent(
            """\
            version: 1
            policies:
              # how much it may do
              mode: ask
            """
        )
    )

    @tool(requires_approval=True)
    async def send(to: str) -> str:
        return to

    person = Person(Decision.always("file"))
    session = ToolSession(user="ana")
    tools = AdvancedToolProcessor(tools=[send], config=file, approval=person)
    assert (await tools.execute("send", {"to": "Ana"}, session=session)).ok
    fingerprint = fingerprint_of(tools.registry.get("send").metadata)
    assert file.read_text() == textwrap.dedent(
        f"""\
        version: 1
        policies:
          # how much it may do
          mode: ask
          always:
            send requires_approval:
              tools: send
              question: requires_approval
              fingerprint: {fingerprint}
              users: ana
        """
    )
    tools = AdvancedToolProcessor(tools=[send], config=file, approval=person)
    assert (await tools.execute("send", {"to": "Ben"}, session=ToolSession(user="ana"))).ok
    assert len(person.asked) == 1
    person.decisions.put_nowait(Decision.deny())
    assert not (await tools.execute("send", {"to": "Ben"}, session=ToolSession(user="ben"))).ok


async def test_several_calls_wait_at_once_and_each_has_its_answer():
    async def elsewhere(request):
        await asyncio.Event().wait()

    bank = Bank(approval=elsewhere)
    calls = [bank.start("send", to=to, amount=1) for to in ("Ana", "Ben", "Cy")]
    while len(bank.approvals.pending()) < 3:
        await asyncio.sleep(0)
    by_name = {request.details["to"]: request.id for request in bank.approvals.pending()}
    bank.approvals.decide(by_name["Ben"], Decision.approve())
    bank.approvals.decide(by_name["Cy"], Decision.deny())
    bank.approvals.decide(by_name["Ana"], Decision.approve())
    assert [(await each).status for each in calls] == ["ok", "ok", "denied"]
    assert sorted(bank.sent) == [("Ana", 1), ("Ben", 1)]


DENIED = [{"name": "no more", "tools": ["send"], "decide": "deny"}]


@pytest.mark.parametrize(
    ("change", "reason_code", "sent"),
    [
        ({"policies.rules": DENIED}, "denied_by_rule", []),
        ({"policies.mode": "read_only"}, "denied_by_rule", []),
        ({"tools.send.enabled": False}, "disabled", []),
        ({"policies.default_timeout": 60}, None, [("Ana", 20)]),
    ],
)
async def test_a_call_that_was_asked_about_runs_under_the_settings_of_its_answer(
    change, reason_code, sent
):
    person = Person()
    bank = Bank(approval=person)
    async with bank.tools:
        call = bank.start("send", to="Ana", amount=20)
        await bank.until_asked()
        bank.tools.settings.update(change)
        person.decisions.put_nowait(Decision.approve())
        result = await call
    assert (result.reason_code, bank.sent) == (reason_code, sent)
    assert result.result == ({"sent": 20} if sent else None)


async def test_with_a_durable_store_a_call_that_waited_through_an_edit_runs_once(tmp_path):
    person = Person()
    url = f"sqlite+aiosqlite:///{tmp_path}/kept.db"
    store = {"enabled": True, "url": url, "durable": True}
    bank = Bank(approval=person, config={"store": store})
    arguments, again = {"to": "Ana", "amount": 20}, {"session": bank.session, "call_id": "c1"}
    async with bank.tools:
        call = asyncio.create_task(bank.tools.execute("send", arguments, **again))
        await bank.until_asked()
        bank.tools.settings.update({"policies.default_timeout": 60})
        person.decisions.put_nowait(Decision.approve())
        assert (await call).result == {"sent": 20}
        person.decisions.put_nowait(Decision.approve())
        await bank.tools.execute("send", arguments, **again)
    assert bank.sent == [("Ana", 20)]


async def test_an_approved_call_does_not_run_with_another_definition_of_its_tool():
    person = Person()
    bank = Bank(approval=person)

    @tool(name="send", requires_approval=True)
    async def send_twice(to: str, amount: float) -> None:
        """Sends money twice."""
        bank.sent.append((to, 2 * amount))

    call = bank.start("send", to="Ana", amount=20)
    await bank.until_asked()
    bank.tools.registry.replace(send_twice)
    for decision in (Decision.approve(), Decision.deny()):
        person.decisions.put_nowait(decision)
    assert (await call).status == "denied"
    assert (len(person.asked), bank.sent) == (2, [])


@pytest.mark.parametrize(
    ("change", "decision"),
    [
        ({}, Decision.approve()),
        ({"policies.default_timeout": 60}, Decision.approve()),
        ({}, Decision.edit({"days": 2})),
    ],
)
async def test_an_approved_call_is_stopped_by_its_id_and_its_effect_is_not_known(change, decision):
    started, person = asyncio.Event(), Person()

    @tool(requires_approval=True, retry_attempts=0)
    async def rent(days: int) -> None:
        """Rents a car."""
        started.set()
        await asyncio.Event().wait()

    bank = Bank(rent, approval=person)
    async with bank.tools:
        calling = asyncio.create_task(
            bank.tools.execute("rent", {"days": 1}, session=bank.session, call_id="c1")
        )
        await bank.until_asked()
        if change:
            bank.tools.settings.update(change)
        person.decisions.put_nowait(decision)
        await started.wait()
        await bank.tools.cancel("c1", session=bank.session)
        assert (await calling).status == "unknown_outcome"


async def test_a_call_that_is_cancelled_takes_its_question_away():
    bank = Bank(approval=Person())
    calling = bank.start("send", to="Ana", amount=20)
    request = await bank.until_asked()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    while bank.approvals.pending():
        await asyncio.sleep(0)
    with pytest.raises(ToolDeniedError, match="withdrawn"):
        bank.approvals.decide(request.id, Decision.approve())
    assert bank.sent == []


@pytest.mark.parametrize(("on_expiry", "status"), [("cancel", "denied"), ("proceed", "ok")])
async def test_a_question_whose_time_is_up_has_a_default(on_expiry, status):
    approval = {"deadline": "20ms", "on_expiry": on_expiry}
    bank = Bank(approval=Person(), policies={"approval": approval})
    assert (await bank.call("send", to="Ana", amount=20)).status == status
    assert len(bank.sent) == (status == "ok")
    assert bank.told("tool_approval_answer")[0]["by"] == "expiry"


async def test_a_rule_has_its_own_time_and_default():
    rules = [
        {
            "name": "large",
            "tools": "send",
            "decide": "ask",
            "when": {"amount": {"above": 10}},
            "deadline": "20ms",
            "on_expiry": "proceed",
        }
    ]
    bank = Bank(approval=Person(), policies={"rules": rules})
    assert (await bank.call("send", to="Ana", amount=20)).status == "ok"


# --- answers that come later -------------------------------------------------------------------


async def test_a_channel_without_an_answer_leaves_the_question_open():
    async def console(request):
        return None

    bank = Bank(approval=console)
    result = await bank.call("send", to="Ana", amount=20)
    assert (result.status, result.reason_code) == ("pending_approval", "asked_elsewhere")
    (request,) = bank.approvals.pending()
    decide = bank.approvals.decide
    call, late = await bank.late_result(lambda: decide(request.id, Decision.approve()))
    assert (call.name, late.status, late.result["result"]) == ("send", "ok", {"sent": 20})
    assert bank.sent == [("Ana", 20)]
    with pytest.raises(ToolDeniedError, match="answered already"):
        decide(request.id, Decision.approve())


def expire():
    """Lets the deadline of 5 s pass."""
    asyncio.get_running_loop().advance(6)


@on_elastic_time
async def test_a_no_and_a_timeout_are_reported_later_too():
    bank = Bank()
    approval = await bank.ask()
    _, late = await bank.late_result(
        lambda: bank.approvals.decide(approval, Decision.deny("no money"))
    )
    assert (late.status, late.reason_code) == ("denied", "refused")
    bank = Bank(policies={"approval": {"deadline": "5s"}})
    await bank.ask()
    _, late = await bank.late_result(expire)
    assert (late.status, late.reason_code) == ("denied", "approval_expired")


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        ("No!", []),
        ("Hm.", []),
        ("Okay, nein.", []),
        ("Send it to Ben instead.", []),
        (None, [("Ana", 20)]),
    ],
)
@on_elastic_time
async def test_a_call_proceeds_only_where_the_question_is_met_with_silence(words, sent):
    bank = Bank(policies={"approval": {"deadline": "5s", "on_expiry": "proceed"}})
    await bank.ask()
    bank.put(None) if words is None else bank.answer(words)
    await bank.late_result(expire)
    assert bank.sent == sent


@on_elastic_time
async def test_a_call_does_not_proceed_on_silence_over_a_lost_connection():
    bank = Bank(policies={"approval": {"deadline": "5s", "on_expiry": "proceed"}})
    await bank.ask()
    bank.put(None)
    bank.transcript.reconnected()
    _, result = await bank.late_result(expire)
    assert (result.reason_code, bank.sent) == ("approval_expired", [])


@on_elastic_time
async def test_a_call_does_not_proceed_on_silence_after_a_question_that_was_never_spoken():
    bank = Bank(policies={"approval": {"deadline": "5s", "on_expiry": "proceed"}})
    await bank.ask()
    await bank.late_result(expire)
    assert bank.sent == []


async def test_other_arguments_that_do_not_fit_leave_the_question_open():
    bank = Bank()
    approval = await bank.ask()
    with pytest.raises(ToolValidationError):
        bank.approvals.decide(approval, Decision.edit({"to": "Ben"}))
    assert [request.id for request in bank.approvals.pending()] == [approval]


async def test_changes_are_reported_to_subscribers():
    bank = Bank()
    seen = []
    bank.approvals.on_change(lambda: 1 / 0)
    unsubscribe = bank.approvals.on_change(lambda: seen.append(len(bank.approvals.pending())))
    approval = await bank.ask()
    await bank.ask("Ben")
    bank.approvals.decide(approval, Decision.deny())
    unsubscribe()
    bank.approvals.withdraw_all()
    assert seen == [1, 2, 1]


async def test_no_event_holds_arguments_or_sentences():
    bank = Bank(approval=Person(Decision.edit({"to": "Benjamin", "amount": 7777})))
    await bank.call("send", to="Anastasia", amount=20)
    told = json.dumps([event.to_json() for event in bank.events if "approval" in event.kind])
    assert "approval_id" in told
    for secret in ("Anastasia", "Benjamin", "7777", "Shall"):
        assert secret not in told


@pytest.mark.parametrize(
    "decision",
    [Decision.approve(), Decision.deny("no"), Decision.edit({"a": 1}), Decision.always("file")],
)
def test_a_decision_goes_through_json(decision):
    assert Decision.from_json(json.loads(json.dumps(decision.to_json()))) == decision


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"answer": "yes"},
        {"answer": "edit"},
        {"answer": "approve", "arguments": {}},
        {"answer": "always", "scope": "world"},
        {"answer": "approve", "more": 1},
    ],
)
def test_what_is_no_decision_is_refused(data):
    with pytest.raises(ValueError, match=r"Answer|decision|arguments"):
        Decision.from_json(data)


def test_the_mode_of_a_session_is_one_of_three():
    policy = SessionPolicy("autonomous")
    with pytest.raises(ValueError, match="yolo"):
        policy.mode = "yolo"
    assert policy.mode == "autonomous"
    assert ToolSession().find(Approvals) is None


# --- the terminal ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        (["y\n"], Answer.APPROVE),
        (["what?\n", "\n", "no\n"], Answer.DENY),
        (["maybe\n", "好的\n"], Answer.APPROVE),
        (["a\n"], Answer.ALWAYS),
        ([""], Answer.DENY),
    ],
)
async def test_the_terminal_asks_until_there_is_an_answer(lines, answer):
    written, left = [], iter(lines)
    channel = TerminalChannel(lambda: next(left), written.append)
    bank = Bank(approval=channel)
    result = await bank.call("send", to="Ana", amount=20)
    assert result.ok is (answer is not Answer.DENY)
    assert written[0] == "Shall I do this: send, to Ana, amount 20?\n"
    assert bank.told("tool_approval_answer")[0]["decision"] == answer


@pytest.mark.parametrize("lines", [[""], ["what?\n", ""]])
async def test_the_end_of_the_input_is_not_the_users_no(lines):
    left = iter(lines)
    bank = Bank(approval=TerminalChannel(lambda: next(left), lambda _: None))
    result = await bank.call("send", to="Ana", amount=20)
    assert (result.status, result.reason_code) == ("denied", "approval_failed")
    assert "the terminal has no more input" in result.message
    assert "said no" not in result.message


@pytest.mark.parametrize("answer", [Answer.APPROVE, Answer.DENY, Answer.ALWAYS])
@pytest.mark.parametrize("arguments", [{"to": "Eve", "amount": 9}, {}, [1], "x"])
def test_only_an_edit_or_a_fill_carries_arguments(answer, arguments):
    with pytest.raises(ValueError, match="'edit' and 'fill'"):
        Decision(answer=answer, arguments=arguments)
    with pytest.raises(ValueError, match="'edit' and 'fill'"):
        Decision.from_json({"answer": answer.value, "arguments": arguments})


@pytest.mark.parametrize("answer", [Answer.EDIT, Answer.FILL])
@pytest.mark.parametrize("arguments", [None, [1], "x"])
def test_an_edit_or_a_fill_carries_a_mapping(answer, arguments):
    with pytest.raises(ValueError, match="'edit' and 'fill'"):
        Decision(answer=answer, arguments=arguments)


async def test_a_listener_that_raises_keeps_no_other_from_a_late_result():
    bank = Bank()
    approval = await bank.ask()
    heard = []

    def fail(*_):
        raise RuntimeError

    bank.approvals.on_result(fail)
    bank.approvals.on_result(lambda call, result: heard.append(result.status))
    await bank.late_result(lambda: bank.approvals.decide(approval, Decision.deny()))
    assert heard == ["denied"]
