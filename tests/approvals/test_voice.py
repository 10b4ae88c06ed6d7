"""Approval by voice: the model asks, the user answers, and the answer is heard."""

import asyncio

import pytest

from leonidas_tools import AdvancedToolProcessor, Tool, ToolSession, tool
from leonidas_tools.approvals import evidence
from leonidas_tools.approvals.request import Decision
from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.errors import RetryableError
from leonidas_tools.rules.rule import Rule
from tests.approvals.bench import Bank
from tests.policies.clock import in_no_time


async def test_a_call_is_answered_at_once_with_the_question():
    bank = Bank()
    result = await bank.call("send", to="Ana", amount=20)
    response = result.to_response()
    (request,) = bank.approvals.pending()
    assert response["status"] == "pending_approval"
    assert response["result"] == {
        "approval_id": request.id,
        "ask": "Shall I do this: send, to Ana, amount 20?",
    }
    assert "confirm_action" in response["message"]
    assert response["retryable"] is False
    assert bank.sent == []


async def test_after_a_yes_the_tool_runs_and_its_result_answers_the_confirmation():
    bank = Bank()
    approval = await bank.ask()
    bank.answer("Yes, please.")
    result = await bank.confirm(approval)
    assert result.to_response() == {
        "status": "ok",
        "result": {"approval_id": approval, "tool": "send", "result": {"sent": 20}},
        "retryable": False,
    }
    assert bank.sent == [("Ana", 20)]
    assert bank.approvals.pending() == []
    assert bank.told("tool_approval_request")[0]["approval_id"] == approval
    assert bank.told("tool_approval_answer") == [
        {"approval_id": approval, "decision": "approve", "by": "voice"}
    ]


async def test_after_a_no_nothing_runs():
    bank = Bank()
    approval = await bank.ask()
    bank.answer("No!")
    result = await bank.confirm(approval, "no", reason="too much")
    assert (result.status, result.reason_code) == ("denied", "refused")
    assert "'too much'" in result.message
    assert bank.sent == []
    assert bank.approvals.pending() == []


@pytest.mark.parametrize(
    ("words", "status", "sent"),
    [
        ("No! Stop.", "denied", []),
        ("Okay, stop right now!", "denied", []),
        ("I changed my mind.", "denied", []),
        ("Let us have lunch outside then, " * 10 + "and do not send it.", "denied", []),
        ("Whoa, hold your horses.", "denied", []),
        ("Actually, forget about it.", "denied", []),
        ("好的等一下", "denied", []),
        ("慢着", "denied", []),
        ("我改主意了", "denied", []),
        ("Thank you.", "ok", [("Ana", 20)]),
        ("No worries.", "ok", [("Ana", 20)]),
        ("没关系", "ok", [("Ana", 20)]),
    ],
)
@pytest.mark.parametrize("by_voice", [True, False])
@in_no_time
async def test_a_no_after_the_yes_holds_while_the_call_waits_for_another_one(
    words, status, sent, by_voice
):
    begun, goes_on = asyncio.Event(), asyncio.Event()

    @tool(lane="vault", requires_approval=False)
    async def count() -> None:
        """Counts the money."""
        begun.set()
        await goes_on.wait()

    async def approve(_):
        return Decision.approve()

    channel = {} if by_voice else {"approval": approve}
    bank = Bank(count, config={"tools": {"send": {"lane": "vault"}}}, **channel)
    counting = bank.start("count")
    await begun.wait()
    name, arguments = "send", {"to": "Ana", "amount": 20}
    if by_voice:
        name, arguments = "confirm_action", {"approval_id": await bank.ask(), "decision": "yes"}
        bank.answer("Yes.")
    closed = asyncio.Event()
    bank.approvals.on_change(lambda: bank.approvals.pending() or closed.set())
    confirming = bank.start(name, **arguments)
    await closed.wait()
    bank.transcript.user_said(words)
    goes_on.set()
    result = await confirming
    assert (result.status, bank.sent) == (status, sent)
    assert (await counting).ok
    assert result.reason_code == (None if sent else "contradicted")


@in_no_time
async def test_a_no_after_the_yes_holds_between_the_attempts_of_a_call():
    attempts, bank = [], None

    @tool(requires_approval=True, retry_attempts=3)
    async def pay() -> None:
        """Pays."""
        attempts.append(1)
        bank.transcript.user_said("No! Stop.")
        raise RetryableError("The bank is busy.")

    bank = Bank(pay)
    approval = (await bank.call("pay")).result["approval_id"]
    bank.answer("Yes.")
    result = await bank.confirm(approval)
    assert (result.status, result.reason_code) == ("denied", "contradicted")
    assert len(attempts) == 1


@pytest.mark.parametrize(
    "words", ["Yes but not now.", "Maybe.", "How much is it?", "Hm, the red one"]
)
async def test_a_doubtful_answer_is_asked_for_again(words):
    bank = Bank()
    approval = await bank.ask()
    bank.answer(words)
    result = await bank.confirm(approval)
    assert (result.status, result.reason_code) == ("pending_approval", "doubtful")
    assert result.result["approval_id"] == approval
    assert bank.sent == []
    bank.answer("Yes.")
    assert (await bank.confirm(approval)).status == "ok"


async def test_the_second_question_says_which_words_count():
    bank = Bank()
    approval = await bank.ask()
    bank.answer("Hm, well.")
    again = (await bank.confirm(approval)).result["ask"]
    assert again == "Shall I do this: send, to Ana, amount 20? Say 'yes, do it' or 'no'."
    bank.hears(again, "Yes, do it.")
    assert (await bank.confirm(approval)).status == "ok"


async def test_after_three_unclear_answers_the_call_is_denied():
    bank = Bank()
    approval = await bank.ask()
    results = []
    for words in ("Maybe.", "I accept.", "How much?"):
        assert await bank.ask() == approval  # the same call again is no new question
        bank.answer(words)
        results.append(await bank.confirm(approval))
    assert [each.reason_code for each in results] == ["doubtful", "doubtful", "not_understood"]
    assert results[-1].status == "denied"
    assert (bank.sent, bank.approvals.pending()) == ([], [])
    assert bank.told("tool_approval_answer")[-1]["decision"] == "deny"


async def test_a_confirmation_without_an_answer_uses_up_nothing(monkeypatch):
    monkeypatch.setattr(evidence, "_HEAR_SECONDS", 0.05)
    bank = Bank(policies={"loop": "off"})
    approval = await bank.ask()
    bank.transcript.user_said("Send it.")
    for _ in range(5):
        bank.put()
        assert (await bank.confirm(approval)).reason_code == "not_answered"
    bank.answer("Maybe.")
    for _ in range(5):
        await bank.confirm(approval)
    bank.answer("Yes.")
    assert (await bank.confirm(approval)).status == "ok"


async def test_words_before_the_question_do_not_count():
    bank = Bank()
    bank.answer("Yes, send it.")
    approval = await bank.ask()
    bank.transcript.user_said("Yes.")  # the model has not asked: it is still the call's own turn
    result = await bank.confirm(approval)
    assert (result.status, result.reason_code) == ("pending_approval", "not_answered")
    assert bank.sent == []


async def test_one_yes_answers_one_question():
    bank = Bank()
    first, second = await bank.ask("Ana"), await bank.ask("Ben")
    bank.answer("Yes.")
    assert (await bank.confirm(first)).status == "ok"
    assert (await bank.confirm(second)).reason_code == "not_answered"
    bank.answer("Okay.")
    assert (await bank.confirm(second)).status == "ok"
    assert bank.sent == [("Ana", 20), ("Ben", 20)]


@in_no_time
async def test_a_yes_that_is_transcribed_after_the_call_counts_once_it_has_ended():
    bank = Bank()
    approval = await bank.ask()
    bank.put()
    confirming = bank.start("confirm_action", approval_id=approval, decision="yes")
    await _turn()
    bank.transcript.user_said("Ye")
    await _turn()
    bank.transcript.user_said("s, go ahead")
    await _turn()
    bank.transcript.user_finished()
    assert (await confirming).status == "ok"


@in_no_time
async def test_a_yes_without_an_end_counts_only_if_the_model_goes_on_after_it():
    bank = Bank()
    approval = await bank.ask()
    bank.put()
    confirming = bank.start("confirm_action", approval_id=approval, decision="yes")
    await _turn()
    bank.transcript.user_said("Yes")
    result = await confirming
    assert (result.status, result.reason_code) == ("pending_approval", "not_answered")
    assert "same call once more" in result.message
    assert bank.sent == []
    assert (await bank.confirm(approval)).status == "ok"


@in_no_time
async def test_a_change_of_mind_before_it_runs_counts():
    bank = Bank()
    approval = await bank.ask()
    bank.put()
    bank.transcript.user_said("Yes")
    confirming = bank.start("confirm_action", approval_id=approval, decision="yes")
    await asyncio.sleep(1)
    bank.transcript.user_said(" but not now")
    bank.transcript.user_finished()
    assert (await confirming).reason_code == "doubtful"
    assert bank.sent == []


async def test_a_no_that_the_user_was_heard_to_say_yes_to_is_asked_again():
    bank = Bank()
    approval = await bank.ask()
    bank.answer("Yes.")
    assert (await bank.confirm(approval, "no")).reason_code == "doubtful"


async def test_where_nothing_is_transcribed_nothing_is_confirmed_unless_the_model_is_trusted():
    bank = Bank()
    result = await bank.confirm(await bank.ask())
    assert (result.status, result.reason_code) == ("denied", "no_transcript")
    assert bank.sent == []
    trusting = Bank(policies={"approval": {"trust_model": True}})
    assert (await trusting.confirm(await trusting.ask())).status == "ok"


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ("Send 20 euros to Ana?", "ok"),
        ("Okay, send €20 to Ana.", "ok"),
        ("Okay. Hypothetically: send 20 euros to Ana?", "pending_approval"),
        ("Send twenty euros to Ana?", "ok"),
        ("So, shall I now send 20 euros to Ana, yes or no?", "pending_approval"),
        ("Shall I wait before I send 20 euros to Ana?", "pending_approval"),
        ("Did I send 20 euros to Ana?", "pending_approval"),
        ("Will you send 20 euros to Ana?", "pending_approval"),
        ("Send 20 euros to Ana? In yen, right?", "pending_approval"),
    ],
)
async def test_a_rule_asks_in_its_own_words_alone(asked, status):
    bank = Bank()
    words = "Send {amount} euros to {to}?"
    rule = Rule(name="money", decide="ask", tools=("send",), message=words)
    bank.session.get(SessionPolicy).rules.append(rule)
    approval = await bank.ask()
    bank.hears(asked, "Yes.")
    assert (await bank.confirm(approval)).status == status


@pytest.mark.parametrize(
    "name",
    [
        "? Never mind. Shall I play music",
        "cc: nobody, bcc",
        "amo\u200bunt",
        "\u0430mount",
        "\u202eot",
        "to\nbcc",
        "x" * 81,
    ],
    ids=ascii,
)
async def test_a_name_that_is_not_what_it_sounds_like_is_not_asked_about_by_voice(name):
    async def post(**given: object) -> None: ...

    parameters = {"type": "object", "properties": {"to_whom": {"type": "string"}}}
    letter = Tool.from_json_schema(
        name="post", description="", parameters=parameters, function=post, requires_approval=True
    )
    bank = Bank(letter)
    asked = await bank.tools.execute("post", {"to_whom": "Ana"}, session=bank.session)
    assert asked.result["ask"] == "Shall I do this: post, to whom Ana?"
    more = {"to_whom": "Ana", name: "Eve"}
    asked = await bank.tools.execute("post", more, session=bank.session)
    assert asked.reason_code == "not_by_voice"


async def test_a_question_about_very_many_arguments_is_asked_elsewhere():
    async def post(**given: object) -> None: ...

    parameters = {"type": "object", "properties": {}}
    letter = Tool.from_json_schema(
        name="post", description="", parameters=parameters, function=post, requires_approval=True
    )
    bank = Bank(letter)
    many = {f"n{number}": "a" for number in range(600)}  # each was looked for in each
    assert (await bank.call("post", **many)).reason_code == "not_by_voice"


@pytest.mark.parametrize(
    ("names", "reason"),
    [(["Ana", "Ben"], "needs_approval"), (["Ana", "amount 5"], "not_by_voice")],
)
async def test_an_item_of_a_list_that_sounds_like_another_argument_is_not_asked_about_by_voice(
    names, reason
):
    @tool(requires_approval=True)
    async def share(names: list[str], amount: int) -> None: ...

    bank = Bank(share)
    assert (await bank.call("share", names=names, amount=500)).reason_code == reason


@pytest.mark.parametrize(
    ("path", "spoken", "status"),
    [
        ("/home/ana/..", "/home/ana/", "pending_approval"),
        ("~/.ssh", "~/ssh", "pending_approval"),
        (".env", "env", "pending_approval"),
        ("/home/ana/..", "/home/ana/..", "ok"),
        ("notes.txt", "notes.txt", "ok"),
    ],
)
async def test_the_dots_that_begin_a_part_of_a_path_have_to_be_asked_about(path, spoken, status):
    @tool(requires_approval=True)
    async def clear(path: str) -> None: ...

    bank = Bank(clear)
    approval = (await bank.call("clear", path=path)).result["approval_id"]
    bank.transcript.model_spoke(f"Shall I do this: clear, path {spoken}?")
    bank.transcript.turn_ended()
    bank.transcript.user_said("Yes.")
    bank.transcript.turn_ended()
    assert (await bank.confirm(approval)).status == status


@pytest.mark.parametrize(
    "text", ["Sorry. Shall I play music?", "Or would you like some music", "要不要听音乐"]
)
async def test_our_question_is_the_last_one_where_an_argument_sounds_like_one(text):
    @tool(requires_approval=True)
    async def post_letter(to: str, text: str) -> None: ...

    bank = Bank(post_letter)
    asked = (await bank.call("post_letter", to="Ana", text=text)).result
    ours = "Shall I do this: post letter?"
    assert asked["ask"] == f"Shall I do this: post letter, to Ana, text {text}? {ours}"
    for spoken, status in ((asked["ask"].removesuffix(ours), "pending"), (asked["ask"], "ok")):
        bank.transcript.model_spoke(spoken)
        bank.transcript.turn_ended()
        bank.transcript.user_said("Yes.")
        bank.transcript.turn_ended()
        answer = await bank.confirm(asked["approval_id"])
        assert answer.status.startswith(status)


@pytest.mark.parametrize(
    ("files", "asked"),
    [
        (["a, b", "c"], "Delete 2 files, a, b, c?"),
        ([{"count": 1}, {"count": 1}], 'Delete 2 files, {"count": 1}, {"count": 1}?'),
        ({"*": "a", "x": "b"}, "Delete 2 files, a, b?"),
    ],
)
async def test_a_message_counts_the_items_and_says_each_once(files, asked):
    @tool(requires_approval=False)
    async def delete(files: list | dict) -> None:
        """Delete files."""

    rule = {"name": "files", "decide": "ask", "tools": "delete"}
    rule["message"] = "Delete {files.count} files, {files[*]}?"
    bank = Bank(delete, policies={"rules": [rule]})
    assert (await bank.call("delete", files=files)).status == "pending_approval"
    assert bank.approvals.pending()[0].title == asked


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ({"tags": ["x", "y"], "files": ["a"] * 12}, "Delete 12 files? (tags x, y)"),
        ({"files": ["a"], "count": 3}, "Delete 3 files? (files a)"),
    ],
)
async def test_a_message_counts_the_list_of_its_condition(arguments, asked):
    async def delete(**given: object) -> None: ...

    parameters = {"type": "object", "properties": {}}
    deleting = Tool.from_json_schema(
        name="delete", description="", parameters=parameters, function=delete
    )
    rule = {"name": "files", "decide": "ask", "tools": "delete", "message": "Delete {count} files?"}
    bank = Bank(deleting, policies={"rules": [{**rule, "when": {"files": {"count_above": 0}}}]})
    result = await bank.call("delete", **arguments)
    assert result.result["ask"] == asked


async def test_the_same_call_again_is_the_same_question():
    bank = Bank()
    assert await bank.ask() == await bank.ask()
    assert len(bank.approvals.pending()) == 1
    assert await bank.ask(amount=21) != await bank.ask(amount=20)


async def test_of_equal_calls_made_at_once_one_is_asked_about_and_runs():
    bank = Bank()
    results = await asyncio.gather(*(bank.call("send", to="Ana", amount=20) for _ in range(3)))
    (approval,) = {result.result["approval_id"] for result in results}
    bank.answer("Yes.")
    assert (await bank.confirm(approval)).status == "ok"
    assert bank.approvals.pending() == []
    assert bank.sent == [("Ana", 20)]


async def test_of_equal_calls_that_a_channel_leaves_in_another_order_one_is_asked_about():
    shown, left = asyncio.Queue(), [asyncio.Event(), asyncio.Event()]
    leaves = iter(left)

    async def channel(request):
        leave = next(leaves)
        shown.put_nowait(request)
        await leave.wait()

    bank = Bank(approval=channel)
    calls = []
    for _ in left:
        calls.append(bank.start("send", to="Ana", amount=20))
        await shown.get()
    for call, leave in zip(reversed(calls), reversed(left), strict=True):
        leave.set()
        assert (await call).status == "pending_approval"
    (request,) = bank.approvals.pending()
    await bank.late_result(lambda: bank.approvals.decide(request.id, Decision.approve()))
    assert bank.sent == [("Ana", 20)]


async def test_a_question_has_the_words_of_its_rule_or_of_the_session():
    rules = [
        {
            "name": "many",
            "tools": "send",
            "decide": "ask",
            "when": {"amount": {"above": 100}},
            "message": "Really send {amount} to {to}?",
        }
    ]
    bank = Bank(policies={"rules": rules})
    bank.session.get(SessionPolicy).language = "pt-BR"
    await bank.ask(amount=500)
    await bank.ask(amount=5)
    assert [request.title for request in bank.approvals.pending()] == [
        "Really send 500 to Ana?",
        "Posso fazer isto: send, to Ana, amount 5?",
    ]


async def test_the_tool_for_the_answer_is_there_while_anything_may_be_asked():
    def names(tools):
        return {f.name for t in tools.declarations() for f in t.function_declarations}

    @tool(requires_approval=True)
    async def send() -> None: ...

    assert "confirm_action" in names(Bank().tools)
    tools = AdvancedToolProcessor(builtin_tools=False)
    assert len(tools.registry) == 0
    tools.registry.register(send)
    assert names(tools) == {"send", "confirm_action"}
    tools.registry.unregister("send")
    assert names(tools) == set()
    tools = AdvancedToolProcessor(config={"policies": {"rules": [{"name": "a", "decide": "ask"}]}})
    assert "confirm_action" in names(tools)


async def test_the_tool_for_the_answer_stays_once_the_rule_of_a_session_has_asked():
    @tool(effect="once", requires_approval=False)
    async def send() -> str:
        return "sent"

    async with AdvancedToolProcessor([send], builtin_tools=False) as tools:
        session = ToolSession("kitchen")
        session.get(SessionPolicy).rules.append(Rule(name="mine", decide="ask"))
        asked = await tools.execute("send", session=session)
        assert asked.status == "pending_approval"
        for _ in range(2):
            tools.declarations()
            assert "confirm_action" in tools.registry
        arguments = {"approval_id": asked.result["approval_id"], "decision": "no"}
        refused = await tools.execute("confirm_action", arguments, session=session)
        assert refused.reason_code == "refused"


@pytest.mark.parametrize("where", ["settings", "session"])
@in_no_time
async def test_a_rule_that_asks_about_every_tool_does_not_ask_about_the_answer(where):
    rules = [{"name": "all", "decide": "ask"}] if where == "settings" else []
    bank = Bank(policies={"rules": rules})
    if where == "session":
        bank.session.get(SessionPolicy).rules.append(Rule(name="all", decide="ask"))
    asked = await bank.ask()
    bank.answer("Yes.", asked)
    assert (await bank.confirm(asked)).status == "ok"
    assert bank.sent == [("Ana", 20.0)]


async def _turn():
    """Lets whatever has begun come to where it waits."""
    for _ in range(5):
        await asyncio.sleep(0)
