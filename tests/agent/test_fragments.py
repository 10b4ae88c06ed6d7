"""A model hands tasks to fragments, which are found, chosen, bounded and measured."""

import asyncio
import json
import sys

import pytest

from leonidas_tools import AdvancedToolProcessor, SessionPolicy, ToolRuntime, ToolSession, tool
from leonidas_tools.agent import (
    Delegation,
    Fragment,
    Fragments,
    ReActAgent,
    ScriptedModel,
    found_fragments,
)
from leonidas_tools.errors import ConfigurationError
from leonidas_tools.rules.rule import Rule
from leonidas_tools.simulator import FunctionCall
from leonidas_tools.store import Store
from leonidas_tools.tools.toolbox import Toolbox
from tests.live.talking import frame, held

BAKE = Fragment(name="bake", description="Knows bread.", tools=["weigh"])


@tool(effect="read")
def weigh(what: str) -> int:
    """Weighs something, in grams."""
    return len(what)


@tool(effect="once", requires_approval=False)
def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


def calls(name, task="Bake it."):
    return {"calls": [(name, {"task": task})]}


def runtime(fragments, *tools, **options):
    return ToolRuntime([*fragments.tools, *tools], builtin_tools=False, **options)


async def test_a_model_hands_a_task_to_a_fragment_which_uses_its_own_tools_only():
    script = [{"calls": [("weigh", {"what": "rye"}), ("pay", {"amount": 3})]}, "3 grams."]
    worker = ScriptedModel(script)
    fragments = Fragments(worker, [BAKE])
    manager = ScriptedModel([calls("bake"), "Done."])
    result = await ReActAgent(manager, runtime(fragments, weigh, pay)).run("Make bread.")
    told = result.turns[0].results[0].result
    assert (told["answer"], told["steps"]) == ("3 grams.", ["weigh: ok", "pay: not_found"])
    assert [*worker.asked[0].tools] == ["weigh"]
    assert worker.asked[0].messages[-1].text == "Bake it."


async def test_an_unknown_fragment_is_answered_with_the_closest_names():
    manager = ScriptedModel([calls("bakeryy"), "I cannot."])
    fragments = Fragments(ScriptedModel([]), [BAKE, Fragment(name="sew", description="Sews.")])
    result = await ReActAgent(manager, runtime(fragments)).run("Make bread.")
    refused = result.turns[0].results[0]
    assert (refused.status, refused.valid_options) == ("not_found", ["bake"])


async def test_a_manager_hands_parts_to_the_fragments_that_it_names_and_to_no_others():
    both = {"calls": [("bake", {"task": "Rye."}), ("sew", {"task": "A."})]}
    models = {
        "lead": ScriptedModel([both, "All."]),
        "bake": ScriptedModel(["Rye bread."]),
    }
    given = [
        Fragment(name="lead", description="Leads.", fragments=["bake"], model="lead"),
        Fragment(name="bake", description="Bakes.", model="bake"),
        Fragment(name="sew", description="Sews."),
    ]
    assert [each.is_manager for each in given] == [True, False, False]
    fragments = Fragments(ScriptedModel([]), given, models=models)
    told = await runtime(fragments).execute("lead", {"task": "Feed us."})
    assert told.result["answer"] == "All."
    assert told.result["steps"] == ["bake: ok", "sew: not_found"]
    assert [*models["lead"].asked[0].tools] == ["bake"]


async def test_fragments_that_hand_a_task_on_in_circles_come_to_an_end():
    loop = Fragment(name="loop", description="Loops.", fragments=["loop"])

    def hand_on(messages):
        return "Enough." if messages[-1].role == "tool" else calls("loop", f"{len(messages)}!")

    fragments = Fragments(ScriptedModel([hand_on], repeat=True), [loop], max_depth=2)
    told = await runtime(fragments).execute("loop", {"task": "Go."})
    assert told.result["answer"] == "Enough."
    measured = (await fragments.measures())["loop"]
    assert (measured.runs, measured.successes) == (2, 2)


async def test_a_fragment_logs_an_unknown_tool_when_it_runs(caplog):
    bake = Fragment(name="bake", description="Knows bread.", tools=["wiegh", "we*", "weigh"])
    fragments = Fragments(ScriptedModel(["Done."]), [bake])
    manager = ScriptedModel([calls("bake"), "Done."])
    await ReActAgent(manager, runtime(fragments, weigh)).run("Make bread.")
    assert caplog.messages == [
        "The fragment 'bake' names the tool 'wiegh', which does not exist: did you mean 'weigh'?"
    ]


async def test_the_calls_and_tokens_of_a_manager_bound_those_of_the_fragments_below_it():
    weighs = {"calls": [("weigh", {"what": "a"}), ("weigh", {"what": "b"})]}
    given = [
        Fragment(name="lead", description="Leads.", fragments=["bake"], model="lead", max_calls=2),
        BAKE,
    ]
    worker = ScriptedModel([weighs, "One of two."])
    lead = ScriptedModel([calls("bake"), "So be it."])
    fragments = Fragments(worker, given, models={"lead": lead})
    told = await runtime(fragments, weigh).execute("lead", {"task": "Feed us."})
    below = lead.asked[1].messages[-1].text
    assert '"weigh: ok","weigh: limited"' in below
    measures = await fragments.measures()
    assert told.result["tokens"] == measures["lead"].tokens > measures["bake"].tokens > 0


async def test_a_fragment_without_an_answer_says_why():
    given = [Fragment(name="bake", description="Bakes.", tools=["*"], max_iterations=1)]
    fragments = Fragments(ScriptedModel([{"calls": [("weigh", {"what": "a"})]}]), given)
    told = await runtime(fragments, weigh).execute("bake", {"task": "Bake."})
    assert (told.status, told.reason_code) == ("limited", "max_iterations")
    assert "Give it to another" in told.message
    assert (await fragments.measures())["bake"].successes == 0


async def test_a_fragment_ends_when_its_time_is_up():
    given = [Fragment(name="bake", description="Bakes.", max_seconds=0.01)]
    told = await runtime(Fragments(ScriptedModel([60.0]), given)).execute("bake", {"task": "Bake."})
    assert (told.status, told.reason_code) == ("timeout", "max_seconds")


async def test_cancelling_the_call_stops_the_fragment_and_all_below_it():
    began, stopped = asyncio.Event(), asyncio.Event()

    @tool(effect="read", timeout_seconds=3_600)
    async def knead() -> str:
        """Kneads for ever."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    given = [
        Fragment(name="lead", description="Leads.", fragments=["bake"], model="lead"),
        Fragment(name="bake", description="Bakes.", tools=["knead"]),
    ]
    models = {"lead": ScriptedModel([calls("bake")])}
    fragments = Fragments(ScriptedModel([{"calls": [("knead", {})]}]), given, models=models)
    tools = runtime(fragments, knead)
    session = ToolSession()
    work = asyncio.create_task(tools.execute("lead", {"task": "Go."}, session=session, call_id="1"))
    await began.wait()
    tools.cancel("1", session=session)
    assert (await work).status == "unknown_outcome"
    await stopped.wait()


async def test_the_tools_that_a_fragment_brings_are_made_for_its_first_task():
    made = []

    def make(_settings):
        def sell(what: str) -> str:
            return what

        made.append(1)
        return [sell]

    brings = [weigh, Toolbox(summary="Money.", make=make)]
    given = [Fragment(name="shop", description="Shops.", tools=brings)]
    worker = ScriptedModel(["Bought."], repeat=True)
    tools = runtime(Fragments(worker, given))
    assert (made, [each.name for each in tools.registry]) == ([], ["shop"])
    for _ in range(2):
        assert (await tools.execute("shop", {"task": "Buy."})).ok
    assert [*worker.asked[1].tools] == ["weigh", "sell"]
    assert made == [1]


async def test_what_fragments_took_is_kept_in_the_store_over_a_restart(tmp_path):
    settings = {"version": 1, "store": {"enabled": True, "url": str(tmp_path / "kept.db")}}
    fragments = Fragments(ScriptedModel(["Rye.", ""], repeat=True), [BAKE])
    async with runtime(fragments, config=settings) as tools:
        assert (await tools.execute("bake", {"task": "Bake."})).ok
        here = (await fragments.measures(tools.store))["bake"]
    async with Store(tmp_path / "kept.db") as store:
        kept = (await Fragments(ScriptedModel([]), [BAKE]).measures(store))["bake"]
    assert kept == here
    assert (kept.runs, kept.successes) == (1, 1)
    assert kept.tokens == (await fragments.measures())["bake"].tokens > 0
    assert kept.seconds > 0


def test_fragments_are_found_in_a_folder_and_in_installed_packages(tmp_path, monkeypatch):
    folder = tmp_path / "fragments"
    folder.mkdir()
    (folder / "bake.yaml").write_text("description: Bakes.\ntools: [weigh, 'file_*']\n")
    (folder / "lead.yml").write_text("description: Leads.\nfragments: [bake]\nmax_seconds: 5m\n")
    (tmp_path / "lt_fragments.py").write_text(
        "from leonidas_tools.agent import Fragment\n"
        "FRAGMENTS = [Fragment(name='sew', description='Sews.')]\n"
    )
    info = tmp_path / "lt_fragments-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lt-fragments\nVersion: 1.0\n")
    points = "[leonidas_tools.fragments]\nsew = lt_fragments\nknit = lt_fragments:FRAGMENTS\n"
    (info / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "lt_fragments", raising=False)
    found = found_fragments(folder)
    assert [each.name for each in found] == ["bake", "lead", "sew", "sew"]
    assert found[0].tools == ("weigh", "file_*")
    assert (found[1].fragments, found[1].max_seconds) == (("bake",), 300)
    assert [each.name for each in found_fragments(folder, installed=False)] == ["bake", "lead"]
    sys.modules.pop("lt_fragments", None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "description: Bakes.\ntool: [weigh]\n",
            "is not a setting; did you mean 'tools'",
        ),
        ("tools: [weigh]\n", "description: is missing"),
        ("description: [\n", "bake.yaml:"),
        ("- 1\n", "bake.yaml"),
        ("description: A.\ndescription: B.\n", "bake.yaml:2"),
    ],
)
def test_an_invalid_fragment_file_is_reported_with_the_problem(tmp_path, text, said):
    (tmp_path / "bake.yaml").write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        found_fragments(tmp_path, installed=False)
    assert said in str(refused.value)
    assert "bake.yaml" in str(refused.value)


def test_fragments_that_refer_to_unknown_names_are_refused_with_the_closest_name(tmp_path):
    lead = Fragment(name="lead", description="Leads.", fragments=["bakee"])
    with pytest.raises(ConfigurationError, match=r"'bakee', .* did you mean 'bake'"):
        Fragments(ScriptedModel([]), [lead, BAKE])
    small = Fragment(name="small", description="Small.", model="small")
    with pytest.raises(ConfigurationError, match="'small', which does not exist"):
        Fragments(ScriptedModel([]), [small])
    with pytest.raises(ConfigurationError, match="two fragments are named 'bake'"):
        Fragments(ScriptedModel([]), [BAKE, BAKE])
    with pytest.raises(ConfigurationError, match="is not a folder"):
        found_fragments(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="bounds of the fragment 'x'"):
        Fragment(name="x", description="X.", max_calls=0)
    with pytest.raises(ValueError, match="max_depth"):
        Fragments(ScriptedModel([]), [], max_depth=0)


async def test_the_voice_asks_what_a_fragment_needs_approval_for_in_delegated_work():
    @tool(effect="once", requires_approval=True)
    async def book(when: str) -> str:
        """Books a table."""
        return f"booked {when}"

    host = Fragment(name="host", description="Books tables.", tools=["book"])
    books = ScriptedModel([{"calls": [("book", {"when": "noon"})]}, "Booked for noon."])
    delegation = Delegation(ScriptedModel([calls("host", "A table at noon."), "It is booked."]))
    tools = AdvancedToolProcessor(
        tools=[book, *Fragments(books, [host]).tools, *delegation.tools],
    )

    async def only(session):
        await session.wait_for_input("audio")
        await session.send_calls(FunctionCall("delegate", {"task": "Book it."}, id="job"))
        await session.turn_complete()
        (told,) = await session.wait_for_input("text", containing="approval_id")
        question = json.loads(told.text.splitlines()[-1])["response"]
        await session.say(question["result"]["ask"])
        await session.turn_complete()
        await session.input_transcription("Yes, please.")
        answer = {"approval_id": question["result"]["approval_id"], "decision": "yes"}
        (agreed,) = await session.call(FunctionCall("confirm_action", answer))
        assert agreed.status == "ok"
        await session.expect("job", status="ok")
        await session.turn_complete()

    async def user(_talk):
        yield frame()

    server = {"generation": "3.8-live"}
    simulator, _ = await held([only], tools, generation="3.8-live", server=server, user=user)
    told = simulator.calls[0].final_answers[0].response["result"]
    assert (told["answer"], told["steps"]) == ("It is booked.", ["host: ok"])
    assert books.asked[1].messages[-1].text.startswith('{"status":"ok"')


@pytest.mark.parametrize(
    "name", ["read_salaries", "read_salarie", "Read-Salaries", "read_salaries()"]
)
async def test_a_misspelt_name_does_not_lead_to_a_tool_that_a_fragment_does_not_have(name):
    read = []

    @tool(effect="read")
    def read_salaries() -> None:
        """Read salaries."""
        read.append(1)

    model = ScriptedModel([{"calls": [(name, {})]}, "Nothing."])
    fragments = Fragments(model, [BAKE])
    config = {"policies": {"similar_tool": "read"}}
    tools = ToolRuntime([weigh, read_salaries, *fragments.tools], config=config)
    result = await tools.execute("bake", {"task": "Look."})
    assert result.result["steps"] == [f"{name}: not_found"]
    assert read == []
    assert (await tools.execute(name)).ok
    assert read == [1]


async def test_an_agent_without_a_session_works_in_that_of_the_call_around_it():
    @tool
    async def bake_all() -> str:
        """Bake."""
        agent = ReActAgent(ScriptedModel([{"calls": [("pay", {"amount": 5})]}, "Done."]), tools)
        return (await agent.run("Pay 5.")).turns[0].results[0].status.value

    tools = ToolRuntime([pay, bake_all])
    session = ToolSession(user="ana")
    rule = Rule(name="no pay", decide="deny", tools=["pay"])
    session.get(SessionPolicy).rules.append(rule)
    assert (await tools.execute("bake_all", session=session)).result == "denied"
    assert (await tools.execute("bake_all")).result == "ok"


async def test_the_bounds_of_a_delegation_hold_for_fragments_below():
    baker = ScriptedModel([{"calls": [("weigh", {"what": "flour"})] * 3}, "Baked."])
    delegation = Delegation(ScriptedModel([calls("bake"), "Done."]), max_calls=3)
    tools = ToolRuntime([weigh, *Fragments(baker, [BAKE]).tools, *delegation.tools])
    assert (await tools.execute("delegate", {"task": "Bake."})).ok
    told = [json.loads(each.text) for each in baker.asked[1].messages if each.role == "tool"]
    assert [each["status"] for each in told] == ["ok", "ok", "limited"]
