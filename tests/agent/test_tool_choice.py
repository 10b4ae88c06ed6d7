"""Of very many tools the model sees those that fit the task, by their meaning."""

import asyncio

import pytest

from leonidas_tools import Tool, ToolRuntime
from leonidas_tools.agent import ReActAgent, ScriptedModel, ToolChoice
from leonidas_tools.embeddings import LocalEmbedder
from leonidas_tools.errors import ModelError

TOOLS = {
    "forecast": "Weather of the next days at a place.",
    "transfer": "Sends money to another account.",
    "timer": "Rings after some minutes.",
    "translate": "Puts a text into another language.",
    "lights": "Switches the lamps of a room.",
    "playlist": "Plays music of a kind.",
}


def made(name, description):
    return Tool(lambda: name, name=name, description=description, effect="read")


def tools():
    return [made(*each) for each in TOOLS.items()]


class Counting:
    """The local embeddings, and what they were asked for."""

    space = LocalEmbedder.space

    def __init__(self):
        self._embedder = LocalEmbedder()
        self.asked = []

    async def embed(self, texts, role):
        self.asked.append((role, len(texts)))
        return await self._embedder.embed(texts, role)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "fits"),
    [
        ("Do I need an umbrella in Porto tomorrow?", "forecast"),
        ("Pay Ana back the 20 euros I owe her.", "transfer"),
        ("How do you say good morning in Chinese?", "translate"),
    ],
)
async def test_the_model_sees_the_tools_that_fit_the_task(task, fits):
    embedder, model = Counting(), ScriptedModel(["Done."] * 2)
    agent = ReActAgent(model, tools(), tool_choice=ToolChoice(embedder, most=2))
    for _ in range(2):
        assert (await agent.run(task)).ok
    for asked in model.asked:
        assert fits in asked.tools
        assert len(asked.tools) == 2
    assert embedder.asked == [("passage", 6), ("query", 1), ("query", 1)]


async def test_few_tools_are_all_shown_without_an_embedding():
    embedder, model = Counting(), ScriptedModel(["Done."])
    agent = ReActAgent(model, tools(), tool_choice=ToolChoice(embedder, most=6))
    await agent.run("Hello.")
    assert sorted(model.asked[0].tools) == sorted(TOOLS)
    assert embedder.asked == []


@pytest.mark.slow
async def test_words_find_a_name_that_has_no_meaning():
    odd = [made(f"xq{n}", "Runs the job of that number.") for n in range(40)]
    async with ToolRuntime([*odd, made("zyxomat", "Runs a job.")]) as runtime:
        chosen = await ToolChoice(LocalEmbedder()).choose("start the zyxomat", runtime.declared())
    assert "zyxomat" in [each.name for each in chosen]


def test_a_run_ends_where_there_are_no_embeddings():
    class Broken:
        space = "broken"

        async def embed(self, texts, role):
            raise ModelError("the server is gone", reason="connection")

    agent = ReActAgent(ScriptedModel([]), tools(), tool_choice=ToolChoice(Broken(), most=1))
    result = asyncio.run(agent.run("Hello."))
    assert (result.status, result.reason) == ("failed", "connection")
    assert "no tools were chosen" in result.message


def test_at_least_one_tool_is_chosen():
    with pytest.raises(ValueError, match="1 or more"):
        ToolChoice(LocalEmbedder(), most=0)
