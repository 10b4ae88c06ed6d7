"""The agent with models that nobody has scripted: they err, and their server dies."""

import asyncio
import random
import sys

import pytest

from leonidas_tools import ToolRuntime, ToolSession, tool
from leonidas_tools.agent import OpenAIModel, Planner, ReActAgent, ScriptedModel
from leonidas_tools.agent.models import TextDelta
from leonidas_tools.agent.models.model import ModelParameters
from leonidas_tools.session.tasks import TaskList
from tests.agent.real.bfcl import played
from tests.agent.real.models import LlamaServer, NeedleModel, completed, made
from tests.real.bfcl import Bfcl, folder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
SHORT = ModelParameters(max_output_tokens=120)


@pytest.fixture(scope="module")
def llama():
    server = LlamaServer()
    yield server
    server.close()


def model_at(server, **options):
    return OpenAIModel("smollm2", base_url=server.url, calls_functions=False, **options)


async def test_a_real_server_streams_its_answer_and_counts_tokens(llama):
    pieces = []
    async with model_at(llama) as model:
        agent = ReActAgent(model, parameters=SHORT)
        result = await agent.run("Say hello.", on_chunk=pieces.append)
    assert result.ok
    said = [piece.text for piece in pieces if isinstance(piece, TextDelta)]
    assert len(said) > 1
    assert "".join(said).strip() == result.answer.strip()
    assert result.usage.input_tokens > 0
    assert 0 < result.usage.output_tokens <= 120


@pytest.mark.parametrize(
    "task",
    [
        "Add 2 and 3.",
        "How many apples are 4 apples and 5 apples?",
        "Add 1 and 2, then add 3 to that.",
        "Tell me a story about a sum.",
    ],
)
async def test_the_run_of_a_small_model_ends_and_no_call_has_wrong_arguments(llama, task):
    ran = []

    @tool(effect="read")
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        ran.append((a, b))
        return a + b

    async with model_at(llama) as model:
        agent = ReActAgent(
            model, [add], max_iterations=4, function_calling="text", parameters=SHORT
        )
        result = await agent.run(task)
    assert len(result.turns) <= 4
    assert bool(result.answer) or bool(result.message)
    assert all(type(a) is int and type(b) is int for a, b in ran)


class Passing:
    """Passes on the answers of a model, and does something after the first piece of text."""

    calls_functions = False

    def __init__(self, model, then):
        self.name = model.name
        self._model = model
        self._then = then

    async def stream(self, *asked):
        async for chunk in self._model.stream(*asked):
            yield chunk
            if isinstance(chunk, TextDelta):
                self._then()


async def test_a_server_that_is_killed_in_mid_answer_ends_the_run_with_the_reason():
    server = LlamaServer()
    try:
        async with model_at(server, retries=2, backoff_seconds=0.01) as model:
            agent = ReActAgent(Passing(model, server.kill))
            result = await agent.run("Write a very long story about the sea.")
    finally:
        server.close()
    assert (result.ok, result.answer, result.reason) == (False, None, "connection")
    assert server.url not in result.message


@pytest.fixture(scope="module")
def bfcl():
    sys.path.append(str(folder()))
    yield Bfcl(folder())
    sys.path.remove(str(folder()))


async def test_the_agent_calls_at_least_as_well_as_what_its_model_says_first(bfcl):
    # `python -m tests.agent.real.bfcl` plays a hundred.
    cases = random.Random(11).sample(list(bfcl.cases("simple_python")), 3)
    outcomes = [await played(case) for case in cases]
    for at in (0, 1):  # the function, the exact call
        assert sum(each.agent[at] for each in outcomes) >= sum(each.raw[at] for each in outcomes)
    assert any(each.agent[0] for each in outcomes)


class ByPlan(NeedleModel):
    """Needle, which is given one task of the plan at a time, with the tools that it names."""

    def __init__(self, plan):
        super().__init__()
        self._plan = plan

    async def stream(self, messages, tools=(), parameters=None):
        done = sum(message.role == "tool" for message in messages)
        if done == len(self._plan):
            yield TextDelta("All of it is done.")
            return
        step = self._plan[done]
        fitting = [each for each in tools if each.name in step["tools"]]
        calls = await asyncio.to_thread(completed, step["title"], fitting)
        for chunk in made(calls, messages):
            yield chunk


PLAN = [
    {"title": "Read the file prices.txt", "tools": ["read_file"]},
    {"title": "Execute the Python code 12 * 0.6", "tools": ["execute_code"]},
    {
        "title": "Write 'Twelve pears cost 7.20' to the file total.txt",
        "tools": ["write_file"],
    },
    {
        "title": "Create a note titled Shopping with the text 'twelve pears cost 7.20'",
        "tools": ["create_note"],
    },
    {"title": "Search the notes for Shopping", "tools": ["search_notes"]},
]


async def test_a_task_of_five_steps_over_files_code_and_notes_is_done_to_the_end(tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    (files / "prices.txt").write_text("apple 0.40\npear 0.60\n")
    settings = {
        "store": {"enabled": True, "url": str(tmp_path / "store" / "leonidas.db")},
        "toolboxes": [
            {"files": {"roots": [str(files)]}},
            {"code": {"engine": "monty"}},
            "notes",
        ],
    }
    session = ToolSession()
    async with ToolRuntime([], settings) as tools:
        agent = ReActAgent(
            ByPlan(PLAN), tools, planner=Planner(ScriptedModel([str(PLAN)])), max_iterations=8
        )
        result = await agent.run("Note what twelve pears cost.", session=session)
    assert result.answer == "All of it is done."
    outcomes = [each for turn in result.turns for each in turn.results]
    assert [each.status.value for each in outcomes] == ["ok"] * 5
    assert "pear 0.60" in str(outcomes[0].result)
    assert outcomes[1].result["value"] == pytest.approx(7.2)
    assert "7.20" in (files / "total.txt").read_text()
    assert "Shopping" in str(outcomes[4].result)
    tasks = session.get(TaskList).tasks
    assert [task.status.value for task in tasks] == ["completed"] * 5
