"""What the model of an agent sees of a long run."""

import asyncio

import pytest

from leonidas_tools import tool
from leonidas_tools.agent import ReActAgent, ScriptedModel, ShortTermMemory
from leonidas_tools.agent.models.model import Message, estimated_tokens
from leonidas_tools.errors import ModelError

LONG = "word " * 400


@tool(effect="read")
def look(n: int) -> str:
    """Look at page n."""
    return f"page {n}: {LONG}"


def reading(pages):
    return [{"calls": [("look", {"n": n})]} for n in range(pages)]


def summing_up(*said):
    """A model that sums up, and knows what it was asked to."""
    return ScriptedModel(list(said))


def run(model, short_term, **options):
    agent = ReActAgent(model, [look], max_iterations=20, short_term=short_term, **options)
    return asyncio.run(agent.run("Read the book."))


def tokens(messages):
    return sum(estimated_tokens(message.text) for message in messages)


def test_a_long_run_is_seen_as_a_summary_and_its_newest_turns():
    writer = summing_up(*(f"Read up to {n}." for n in range(9)))
    model = ScriptedModel([*reading(8), "The end."])
    result = run(model, ShortTermMemory(max_tokens=2000, model=writer))
    assert result.answer == "The end."
    assert all(tokens(asked.messages) <= 2000 for asked in model.asked)
    last = model.asked[-1].messages
    assert last[0].text.startswith("Read the book.\n\nSummary of what was done so far:\nRead up to")
    assert [message.role for message in last[1:3]] == ["assistant", "tool"]
    assert "page 7" in last[-1].text
    asked = writer.asked[-1].messages[0].text
    assert "The summary so far:\nRead up to" in asked
    assert "look {'n': " in asked


def test_the_record_keeps_what_the_model_no_longer_sees():
    model = ScriptedModel([*reading(8), "The end."])
    result = run(model, ShortTermMemory(max_tokens=2000, model=summing_up(*["Read."] * 9)))
    whole = "".join(message.text for message in result.messages)
    assert all(f"page {n}" in whole for n in range(8))
    assert len(result.turns) == 9


def test_each_result_that_is_seen_stands_behind_its_call():
    model = ScriptedModel([*reading(8), "The end."])
    run(model, ShortTermMemory(max_tokens=2000, model=summing_up(*["Read."] * 9)))
    for asked in model.asked:
        calls = [call.id for message in asked.messages for call in message.calls]
        answered = [message.call_id for message in asked.messages if message.role == "tool"]
        assert calls == answered


def test_what_the_summary_takes_counts():
    writer = summing_up(*["Read."] * 9)
    used = run(ScriptedModel([*reading(8), "x"]), ShortTermMemory(max_tokens=2000, model=writer))
    plain = run(ScriptedModel([*reading(8), "x"]), None)
    assert 0 < used.usage.output_tokens - plain.usage.output_tokens < 100


def test_where_nothing_sums_up_the_oldest_turns_are_left_out_and_that_is_said():
    model = ScriptedModel([*reading(8), "The end."])
    broken = ScriptedModel([ModelError("away", reason="connection")] * 9)
    result = run(model, ShortTermMemory(max_tokens=2000, model=broken))
    assert result.answer == "The end."
    assert "messages are left out" in model.asked[-1].messages[0].text


def test_a_conversation_that_fits_is_seen_as_it_is():
    writer = summing_up()
    model = ScriptedModel([*reading(2), "The end."])
    result = run(model, ShortTermMemory(max_tokens=8000, model=writer))
    assert writer.asked == []
    assert model.asked[-1].messages == result.messages[: len(model.asked[-1].messages)]


def test_a_history_is_summed_up_and_the_task_stays():
    history = [Message.user(LONG), Message.assistant(LONG)] * 4
    model = ScriptedModel([*reading(3), "The end."])
    agent = ReActAgent(
        model, [look], short_term=ShortTermMemory(max_tokens=2000, model=summing_up(*["S."] * 5))
    )
    asyncio.run(agent.run("Read the book.", history=history))
    assert model.asked[-1].messages[0].text.startswith("Read the book.")


def test_a_single_turn_that_is_too_long_stays_whole():
    model = ScriptedModel([{"calls": [("look", {"n": n}) for n in range(8)]}, "The end."])
    result = run(model, ShortTermMemory(max_tokens=1000, model=summing_up()))
    assert result.answer == "The end."
    assert "page 7" in model.asked[-1].messages[-1].text


def test_tools_that_are_called_by_text_have_a_window_too():
    turns = [f'Action: look\nAction Input: {{"n": {n}}}' for n in range(8)]
    model = ScriptedModel([*turns, "Final Answer: The end."])
    memory = ShortTermMemory(max_tokens=2000, model=summing_up(*["Read."] * 9))
    result = run(model, memory, function_calling="text")
    assert result.answer == "The end."
    last = model.asked[-1].messages
    assert [message.role for message in last[:2]] == ["system", "user"]
    assert "Summary of what was done so far" in last[1].text


def test_a_window_is_not_too_small():
    with pytest.raises(ValueError, match="max_tokens must be 100 or more, not 5"):
        ShortTermMemory(max_tokens=5)
