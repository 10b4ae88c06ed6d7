"""Conversations that confirm a question, and those that do not."""

import asyncio

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from leonidas_tools.approvals.spoken import UnsayableError, ValueSpeaker
from leonidas_tools.approvals.transcript import Transcript
from tests.approvals.bench import Bank
from tests.policies.clock import in_no_time

ASK = "Shall I do this: send, to Ana, amount 20?"
YES = ["ask", "end", "user:Yes.", "finished"]
# An event is what the model says ("model:…"), what the user is heard to say ("user:…"), "ask" for
# the question in full, "end" for the end of the model's turn, or what else happens.
NOT_RUN = {
    "no question": ["user:Yes.", "finished"],
    "yes before the question": ["user:Yes.", "finished", "ask", "end"],
    "yes while it asks": ["ask", "user:Yes.", "finished", "end"],
    "late request": ["ask", "user:Send twenty euros to Ana, yes", "end"],
    "late request, ended": ["ask", "user:Send twenty euros to Ana, yes", "finished", "end"],
    "late request over the end": ["ask", "user:Yes, send it", "end", "user: to Ana, yes"],
    "late request before it asks": ["user:Send 20 to Ana, yes", "ask", "end"],
    "no answer": ["ask", "end"],
    "no": ["ask", "end", "user:No!", "finished"],
    "no, then okay": ["ask", "end", "user:No! Cancel it.", "finished", "user:Okay, thanks."],
    "no, the model, okay": [
        "ask", "end", "user:No!", "finished", "model:All right.", "end", "user:Okay.", "finished"],
    "yes, then no": [*YES, "user:No, wait!", "finished"],
    "yes, then no while the model speaks": [*YES, "model:Hello.", "user:No."],
    "yes, then doubt while the model speaks": [*YES, "model:Okay,", "user:Wait.", "finished"],
    "yes, then the question once more, unfinished": [*YES, "ask"],
    "yes without an end, then no while the model speaks": [
        "ask", "end", "user:Yes.", "end", "model:Hello.", "user:No."],
    "yes, then the question and a yes, unfinished": [*YES, "ask", "user:Yes.", "finished"],
    "no over the question, then yes": ["ask", "user:No!", "finished", "end", "user:Yes.",
                                       "finished"],
    "doubt, then yes": ["ask", "end", "user:How much?", "finished", "user:Yes.", "finished"],
    "yes, then doubt": [*YES, "user:But only ten.", "finished"],
    "asked again, not answered": [*YES, "ask", "end"],
    "asked again, refused": [*YES, "ask", "end", "user:No.", "finished"],
    "half a sentence": ["user:Hello.", "finished", "ask", "end", "user:Yes"],
    "another person": ["model:Shall I do this: send, to Ben, amount 20?", *YES[1:]],
    "another amount": ["model:Shall I do this: send, to Ana, amount 200?", *YES[1:]],
    "a longer name": ["model:Shall I do this: send, to Ana Maria, amount 20?", *YES[1:]],
    "another action": ["model:Shall I look up Ana 20?", *YES[1:]],
    "no amount": ["model:Shall I send it to Ana?", *YES[1:]],
    "nothing of it": ["model:Shall I?", *YES[1:]],
    "sound alone": ["sound", *YES[1:]],
    "a refusal": ["model:I will not send 20 euros to Ana.", *YES[1:]],
    "more after it": ["model:" + ASK + " And 500 to Mallory?", *YES[1:]],
    "another question after it": ["ask", "model: Or shall I wait?", *YES[1:]],
    "the other of two after it": [
        "ask", "model: Or would you like to do it?", "end", "user:Yes, I would.", "finished"],
    "the other of two before it": [
        "model:Would you like to do it, or ", "ask", "end", "user:Yes, I would.", "finished"],
    "a no after it": ["ask", "model: No, right?", "end", "user:That's right.", "finished"],
    "a Chinese no after it": ["ask", "model: 否, 对吗?", "end", "user:对", "finished"],
    "whether the user does it": ["model:Will you send 20 euros to Ana?", *YES[1:]],
    "whether the user does it, after it": ["ask", "model: Can you do it?", *YES[1:]],
    "what a yes means, before it": ["model:Say yes to cancel. ", *YES],
    "what a no means, before it": ["model:If you say no, I do it anyway. ", *YES],
    "what a yes means, in its sentence": ["model:Answer yes to refuse: ", *YES],
    "what a yes means, in Portuguese": ["model:Responda que sim para cancelar. ", *YES],
    "other words": ["model:Should I send 20 euros to Ana?", *YES[1:]],
    "yes or no, after it": ["ask", "model: Yes or no?", *YES[1:]],
    "what a yes cancels": ["model:A yes cancels the transfer. ", *YES],
    "what is a test": ["model:This is only a test. ", *YES],
    "a yes of the model": ["ask", "model: Yes.", "end"],
    "a name that is a word": ["model:Okay, stop. ", *YES],
    "two names": ["model:Okay, Ana Maria. ", *YES],
    "whether to ask": ["model:Should I stop asking: " + ASK, *YES[1:]],
    "negated": ["model:Is it not that " + ASK, *YES[1:]],
    "in two turns": ["model:Shall I do this: send,", "end", "model: to Ana, amount 20?", *YES[1:]],
    "interrupted": ["ask", "interrupted", "user:Yes.", "finished"],
    "interrupted by the yes": ["ask", "user:Yes.", "interrupted", "end", "finished"],
    "asked again, interrupted by the yes": ["ask", "end", "ask", "user:Yes.", "interrupted"],
    "asked again, interrupted, then yes": ["ask", "end", "ask", "interrupted", *YES[2:]],
    "asked again in part": [*YES[:2], "model:Shall I do this", "interrupted", "end", *YES[2:]],
    "asked again, yes, cut by the connection": [
        "ask", "end", "ask", "user:Yes.", "finished", "reconnected"],
    "yes, asked again, interrupted": [*YES, "ask", "interrupted", "end"],
    "yes to another question": [
        *YES[:2], "model:Shall I do this: send, to Ben, amount 20?", "end", *YES[2:]],
    "typed while it asks": ["ask", "typed:Yes.", "end"],
    "yes over another question": [*YES[:2], "model:And to Ben?", "user:Yes.", "finished", "end"],
    "yes over another question without a mark": [
        *YES[:2], "model:Should I also pay Ben", "user:Yes.", "finished", "end"],
    "yes over another question in Chinese without a mark": [
        *YES[:2], "model:也给小明五百吗。", "user:好的", "finished", "end"],
    "typed over something else": [*YES[:2], "model:Type yes to pay Ben.", "typed:Yes.", "end"],
    "typed over something else that does not end": [*YES[:2], "model:I will", "typed:Yes."],
    "yes to something else": [*YES[:2], "model:Say yes if you hear me.", "end", *YES[2:]],
    "yes to something else, interrupted": [
        *YES[:2], "model:Say yes if you", "user:Yes.", "interrupted", "end", "finished"],
    "interrupted half-way": ["model:Shall I do this: send", "interrupted", "user:Yes.", "finished"],
    "cut by the connection": ["ask", "end", "user:Yes", "reconnected"],
    "question cut by the connection": ["ask", "reconnected", "end", "user:Yes.", "finished"],
    "a name before the question": ["model:Hi Ana, of course! ", *YES],
    "another person is meant": ["ask", "end", "user:Yes, to Ben.", "finished"],
    "a condition": ["ask", "end", "user:Yes, if it is cheap.", "finished"],
    "noise": ["ask", "end", "user:...", "finished"],
    "Chinese no": ["ask", "end", "user:不行", "finished"],
    "Portuguese no, then yes": ["ask", "end", "user:Não!", "finished", "user:Tá.", "finished"],
}  # fmt: skip
RUNS = {
    "the words of the question": YES,
    "a preface": ["model:Sure. ", *YES],
    "numbers in words": ["model:Shall I do this: send, to Ana, amount twenty?", *YES[1:]],
    "a greeting": ["model:Hi, of course! ", *YES],
    "in pieces": ["model:Shall I do", "model: this: send, to", "model: Ana, amount 20?", *YES[1:]],
    "an answer in pieces": ["ask", "end", "user:Ye", "user:s, go ahead", "finished"],
    "an answer without an end": ["ask", "end", "user:Yes."],
    "twice": [*YES, "user:Yes, yes.", "finished"],
    "no, asked again, yes": ["ask", "end", "user:No.", "finished", *YES],
    "doubt, asked again, yes": ["ask", "end", "user:How much?", "finished", *YES],
    "interrupted, asked again": ["ask", "interrupted", "end", *YES],
    "another connection": ["ask", "end", "reconnected", "user:Yes.", "finished"],
    "the yes is heard late": [*YES[:2], "model:Okay.", "user:Yes.", "finished", "end"],
    "yes, then yes to something else": [*YES, "model:And a receipt?", "end", *YES[2:]],
    "typed": [*YES[:2], "typed:Yes."],
    "something else, asked again": [*YES[:2], "model:Hello.", "end", *YES],
    "the request is heard late, ended": ["user:Send it.", "finished", *YES],
}


def play(transcript: Transcript, event: str) -> None:
    kind, _, text = event.partition(":")
    match kind:
        case "ask":
            transcript.model_spoke(ASK)
        case "model":
            transcript.model_spoke(text)
        case "user":
            transcript.user_said(text)
        case "typed":
            transcript.user_typed(text)
        case _:
            {
                "end": transcript.model_finished,
                "finished": transcript.user_finished,
                "sound": transcript.model_spoke,
                "interrupted": transcript.interrupted,
                "reconnected": transcript.reconnected,
            }[kind]()


async def confirmed(events):
    """Return what was sent after a conversation and the model's confirmation."""
    bank = Bank()
    approval = await bank.ask()
    for event in events:
        play(bank.transcript, event)
    await bank.confirm(approval)
    return bank.sent


@pytest.mark.parametrize(("rest", "sent"), [("No!", []), (" to Ana.", [("Ana", 20)])])
async def test_a_no_in_the_rest_of_the_request_is_not_lost(rest, sent):
    bank = Bank()
    play(bank.transcript, "user:Send it.")
    approval = await bank.ask()
    for event in ("ask", "end", f"user:{rest}", "finished", "user:Okay, thanks.", "finished"):
        play(bank.transcript, event)
    await bank.confirm(approval)
    assert bank.sent == sent


@pytest.mark.parametrize("events", NOT_RUN.values(), ids=NOT_RUN.keys())
@in_no_time
async def test_what_is_no_yes_to_this_question_runs_nothing(events):
    assert await confirmed(events) == []


@pytest.mark.parametrize("events", RUNS.values(), ids=RUNS.keys())
@in_no_time
async def test_a_yes_to_this_question_runs_the_call(events):
    assert await confirmed(events) == [("Ana", 20)]


BEN = "Shall I do this: send, to Ben, amount 20?"
EVENTS = ["ask", "end", "user:Yes.", "user:No.", "user:Maybe.", "finished", "model:Hello.",
          "interrupted", "reconnected", "sound", f"model:{ASK[:22]}", f"model:{ASK[22:]}",
          f"model:{BEN}"]  # fmt: skip


def may_be_consent(events):
    """Read a conversation once more: the question to its end, then a yes before other words."""
    asked = agreed = is_over = False
    speech, over = "", []
    for event in events:
        kind, _, text = event.partition(":")
        if kind in ("ask", "model"):
            speech += ASK if kind == "ask" else text
        elif kind == "user":
            over.append(text)
            agreed = agreed or (asked and not is_over and not speech and text == "Yes.")
        elif kind in ("end", "interrupted", "reconnected"):
            if ASK in speech and (kind != "end" or speech.endswith(ASK)):
                asked, agreed, is_over = kind == "end", False, False
            elif speech:
                is_answer = "Yes." in over and kind == "end" and "?" not in speech
                agreed = agreed or (asked and not is_over and is_answer)
                is_over = True
            speech, over = "", []
        if kind != "user" and not speech:
            over = []
    return agreed and ASK not in speech


@settings(
    max_examples=5 * settings().max_examples, deadline=None, suppress_health_check=list(HealthCheck)
)
@given(
    st.builds(
        list.__add__,
        st.sampled_from([[], ["ask", "end"], YES]),
        st.lists(st.sampled_from(EVENTS), max_size=12),
    )
)
@example(["ask", "end", "ask", "user:Yes.", "interrupted"])
@example(["ask", "end", "ask", "user:Yes.", "finished", "reconnected"])
@example([*YES, f"model:{ASK[:22]}", "ask"])
@example([*YES, f"model:{ASK[:22]}", "ask", "end"])
def test_a_call_runs_only_if_a_yes_follows_the_last_question_to_its_end(events):
    sent = []

    @in_no_time
    async def conversation():
        sent.extend(await confirmed(events))

    conversation()
    if sent:
        assert may_be_consent(events)
        last = max((i for i, event in enumerate(events) if event == "ask"), default=0)
        said = {event for event in events[last:] if event.startswith("user:")}
        assert not {"user:No.", "user:Maybe."} & said


def test_a_long_turn_of_the_model_is_read_once_however_many_parts_it_has():
    transcript, read = Transcript(), []
    question = transcript.mark()
    for _ in range(60):
        transcript.model_spoke("Okay. " * 50)

    def asks(speech):
        read.append(speech)
        return False

    transcript.exchange(question, asks)
    assert len(read) == 1


@in_no_time
async def test_with_two_questions_open_a_yes_is_for_the_one_that_was_asked():
    bank = Bank()
    ana, mallory = await bank.ask("Ana"), await bank.ask("Mallory", 500)
    bank.answer("Yes.", mallory)
    assert (await bank.confirm(mallory)).reason_code == "waits"
    assert (await bank.confirm(ana)).reason_code == "not_asked"
    bank.answer("Yes.", ana)
    assert (await bank.confirm(mallory)).reason_code == "waits"
    assert (await bank.confirm(ana)).status == "ok"
    assert (await bank.confirm(mallory)).reason_code == "not_answered"
    assert bank.sent == [("Ana", 20)]


@in_no_time
async def test_no_more_questions_wait_than_a_person_can_be_asked():
    bank = Bank()
    for amount in range(16):
        await bank.ask(amount=amount)
    result = await bank.call("send", to="Ana", amount=99)
    assert (result.status, result.reason_code) == ("limited", "too_many_questions")


@pytest.mark.parametrize("pause_seconds", [0.3, 0.5, 1.0, 1.4])
@in_no_time
async def test_a_pause_in_a_sentence_does_not_end_it(pause_seconds):
    bank = Bank()
    approval = await bank.ask()
    bank.put()
    bank.transcript.user_said("Yes")
    confirming = bank.start("confirm_action", approval_id=approval, decision="yes")
    await asyncio.sleep(pause_seconds)
    bank.transcript.user_said(" but not to Ana")
    await confirming
    assert bank.sent == []


UNSAYABLE = [
    "ls" + " -l" * 40 + "; rm -rf /", "Ana\u202e", "A\u200bna", "Ana ", "A  na", "A\nna",
    "\u0430na",
    "\u0440\u0430\u0443", "\uff21na", "Ana, amount 5", "A\u3164na", "x\u00b2",
    "e\u0301", "A\u00a0na",
]  # fmt: skip


@pytest.mark.parametrize("to", UNSAYABLE)
@in_no_time
async def test_what_voice_cannot_say_whole_voice_cannot_approve(to):
    bank = Bank()
    result = await bank.call("send", to=to, amount=20)
    assert (result.status, result.reason_code) == ("pending_approval", "not_by_voice")
    approval = result.result["approval_id"]
    bank.answer("Yes.", approval)
    assert (await bank.confirm(approval)).reason_code == "not_by_voice"
    assert bank.sent == []


@in_no_time
@pytest.mark.parametrize("value", ["a" * 20_001, list(range(201)), {"a": "a" * 20_000}])
async def test_of_a_huge_value_not_even_head_and_tail_are_said(value):
    with pytest.raises(UnsayableError):
        ValueSpeaker(shortens=True).say(value)


async def test_a_setting_has_head_and_tail_said():
    bank = Bank(policies={"approval": {"shorten_values": True}})
    result = await bank.call("send", to="a" * 50 + "b" * 50, amount=20)
    asked = result.result["ask"]
    assert "20 characters left out" in asked
    assert "b" * 40 in asked
    bank.hears(asked, "Yes.")
    assert (await bank.confirm(result.result["approval_id"])).status == "ok"


def test_of_very_long_speech_the_beginning_is_forgotten():
    transcript = Transcript()
    question = transcript.mark()
    for _ in range(50):
        transcript.user_said("x" * 500_000)
        transcript.model_spoke("y" * 500_000)
    said = transcript.exchange(question, lambda _: False)
    assert len("".join(transcript.user_texts(10**9))) <= 2_000_000
    assert said.forgotten
