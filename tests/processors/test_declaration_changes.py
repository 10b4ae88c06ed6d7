"""The declared set can be watched: who listens hears of every real change, once, on their loop."""

import asyncio
import contextvars
import threading

import pytest

from leonidas_tools import (
    AdvancedToolProcessor,
    SessionPolicy,
    Tool,
    ToolRegistry,
    ToolSession,
    tool,
)
from leonidas_tools.approvals.session_policy import Preferred
from leonidas_tools.rules.rule import Decide, Mode, Rule
from leonidas_tools.tools.discovery import discover
from tests.mcp.forking import forked
from tests.processors.chains import ADDED, add, add_part, look_up
from tests.promises.faults.play import Script, call


class Told:
    """Counts what a listener is told, and lets a test wait for it."""

    def __init__(self, tools):
        self.tools = tools
        self.times = 0
        self.threads = set()
        self._news = asyncio.Event()
        self.stop = tools.on_declarations_change(self._hear)

    def _hear(self):
        self.times += 1
        self.threads.add(threading.get_ident())
        self._news.set()

    async def until(self, *names):
        """Waits until it was told, and exactly these are declared."""
        async with asyncio.timeout(20):
            while True:
                await self._news.wait()
                self._news.clear()
                if sorted(declared(self.tools)) == sorted(names):
                    return


def declared(tools):
    every = {f.name: f for group in tools.declarations() for f in group.function_declarations}
    if "answer_question" in every:  # they come and go with servers that may ask something
        del every["answer_question"], every["confirm_action"]
    return every


def alone(*tools, **config):
    return AdvancedToolProcessor(tools=tools, config=config or None, builtin_tools=False)


async def next_turn():
    """What was called back so far has run."""
    done = asyncio.Event()
    asyncio.get_running_loop().call_soon(done.set)
    await done.wait()


def setting(**values):
    return lambda tools: tools.settings.update({"tools": {"add": values}})


CHANGES = {
    "registered": lambda tools: tools.registry.register(lambda: None, name="more"),
    "unregistered": lambda tools: tools.registry.unregister("add"),
    "replaced": lambda tools: tools.registry.replace(add.with_options(description="Sums up.")),
    "set_status": lambda tools: tools.registry.set_status("add", "maintenance"),
    "disabled": setting(enabled=False),
    "in maintenance": setting(status="maintenance"),
    "described": setting(description="Sums up."),
    "behaving": setting(behavior="NON_BLOCKING"),
    "in its environment": setting(environment_specific={"development": {"enabled": False}}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
async def test_a_change_of_the_declarations_is_announced_once(change):
    tools = alone(add, look_up)
    told, before = Told(tools), tools.declarations()
    change(tools)
    assert told.times == 0, "not within the change itself"
    await next_turn()
    assert (told.times, tools.declarations() != before) == (1, True)


NO_CHANGES = {
    "replaced by itself": lambda tools: tools.registry.replace(add.with_options()),
    "only run otherwise": lambda tools: tools.registry.replace(add.with_options(lane="sums")),
    "another timeout": setting(timeout=3, retry_attempts=2),
    "a tool that is not there": lambda tools: tools.settings.update({"tools.gone.enabled": False}),
    "a hidden tool comes": lambda tools: tools.registry.register(
        lambda: None, name="hidden", status="inactive"
    ),
    "there and back": lambda tools: [
        (tools.registry.set_status("add", status), tools.declarations())
        for status in ("inactive", "active")
    ],
}


@pytest.mark.parametrize("change", NO_CHANGES.values(), ids=NO_CHANGES.keys())
async def test_a_change_of_nothing_declared_is_not_announced(change):
    tools = alone(add, look_up)
    told, before = Told(tools), tools.declarations()
    generations = tools.registry.generation, tools.settings.generation
    change(tools)
    assert (tools.registry.generation, tools.settings.generation) != generations
    await next_turn()
    assert (told.times, tools.declarations()) == (0, before)


async def test_all_changes_of_one_turn_are_announced_together():
    tools = alone(add)
    told = Told(tools)
    for number in range(20):
        tools.registry.register(lambda: None, name=f"more_{number}")
    tools.settings.update({"tools.add.enabled": False})
    await next_turn()
    assert (told.times, len(declared(tools))) == (1, 20)


async def test_a_change_from_another_thread_is_announced_on_the_loop():
    tools = alone(add)
    told = Told(tools)
    await asyncio.to_thread(tools.registry.register, look_up)
    await told.until("add", "look_up")
    await asyncio.to_thread(tools.settings.update, {"tools.add.enabled": False})
    await told.until("look_up")
    assert told.threads == {threading.get_ident()}


async def test_a_listener_that_makes_a_change_hears_of_it():
    tools = alone(add)
    told = Told(tools)
    stop = tools.on_declarations_change(
        lambda: None if "twin" in tools.registry else tools.registry.register(add, name="twin")
    )
    tools.registry.register(look_up)
    await told.until("add", "look_up", "twin")
    stop()
    assert told.times in {1, 2}


async def test_a_listener_that_raises_affects_no_other(caplog):
    tools = alone(add)

    def fail():
        raise OSError("the listener's own fault")

    tools.registry.on_change(fail)
    tools.on_declarations_change(fail)
    told = Told(tools)
    tools.registry.register(look_up)
    await told.until("add", "look_up")
    assert told.times == 1
    assert [record.message.partition(": OSError at ")[0] for record in caplog.records] == [
        "A listener for changed tools failed",
        "A listener for changed declarations failed",
    ]


async def test_a_listener_that_has_unsubscribed_hears_nothing():
    tools = alone(add)
    told = Told(tools)
    tools.registry.register(look_up)
    told.stop()
    told.stop()
    await next_turn()
    tools.registry.unregister("add")
    await next_turn()
    assert told.times == 0


async def test_a_late_listener_does_not_hear_of_earlier_changes():
    tools = alone(add)
    early = Told(tools)
    tools.registry.register(look_up)
    late = Told(tools)
    await next_turn()
    assert (early.times, late.times) == (1, 0)


async def test_a_listener_runs_in_the_context_of_its_subscriber():
    who = contextvars.ContextVar("who")
    tools, seen = alone(add), []
    who.set("subscriber")
    tools.on_declarations_change(lambda: seen.append(who.get()))
    who.set("changer")
    tools.registry.register(look_up)
    await next_turn()
    assert seen == ["subscriber"]


def test_a_listener_needs_a_loop_and_a_closed_loop_affects_no_other(caplog):
    tools, seen = alone(add), []
    with pytest.raises(RuntimeError):
        tools.on_declarations_change(lambda: seen.append("without"))

    async def subscribe():
        tools.on_declarations_change(lambda: seen.append("closed"))

    asyncio.run(subscribe())
    tools.registry.register(look_up)
    assert (seen, caplog.records) == ([], [])
    assert sorted(declared(tools)) == ["add", "look_up"]


def test_declarations_belong_to_who_asks():
    tools = alone(add)
    mine = tools.declarations()
    mine[0].function_declarations[0].description = "Mine."
    mine[0].function_declarations.append(mine[0].function_declarations[0])
    mine.clear()
    assert [f.description for f in declared(tools).values()] == ["Adds two numbers."]


def test_a_tool_that_has_just_gone_still_has_a_name():
    registry = ToolRegistry([Tool(look_up.function, name="look/up")])
    registry.unregister("look/up")
    assert registry.declared_name("look/up") == "look_up"


# --- the file --------------------------------------------------------------------------------


async def test_a_tool_disabled_in_the_file_refuses_at_once_in_a_running_session(tmp_path):
    file = tmp_path / "tools.yaml"
    file.write_text("tools: {add: {enabled: true}}\n")
    tools = AdvancedToolProcessor(tools=[add, look_up], config=file, builtin_tools=False)
    told = Told(tools)
    async with Script(tools) as stream:
        stream.say(add_part("before"))
        await stream.until_answered("before")
        file.write_text("tools: {add: {enabled: false}}\n")
        await told.until("look_up")
        stream.say(add_part("after"))
        await stream.until_answered("after")
        adopted = asyncio.Event()
        tools.settings.on_change(lambda _: adopted.set())
        file.write_text("tools: {add: {status: maintenance}}\n")
        async with asyncio.timeout(20):
            await adopted.wait()
        stream.say(add_part("later"))
        heard = await stream.until_answered("later")
    assert heard.by_id == {
        "before": [ADDED],
        "after": [
            {
                "status": "disabled",
                "message": "The tool 'add' is disabled. Continue without it.",
                "retryable": False,
                "reason_code": "disabled",
            }
        ],
        "later": [
            {
                "status": "disabled",
                "message": "The tool 'add' is under maintenance. Try again later.",
                "retryable": True,
                "reason_code": "maintenance",
            }
        ],
    }
    assert told.times == 1


async def test_toolboxes_of_a_file_reloaded_in_a_thread_come_and_go(tmp_path):
    file = tmp_path / "tools.yaml"
    file.write_text("version: 1\n")
    tools = AdvancedToolProcessor(tools=[add], config=file, builtin_tools=False)
    told, threads = Told(tools), set()
    tools.registry.on_change(lambda: threads.add(threading.get_ident()))
    async with tools:
        file.write_text("toolboxes: [leonidas_tools.toolboxes.demo]\n")
        await asyncio.to_thread(tools.settings.reload)
        brought = [tool.name for tool in discover("leonidas_tools.toolboxes.demo")]
        await told.until("add", "confirm_action", *brought)  # one of them asks first
        file.write_text("version: 1\n")
        await asyncio.to_thread(tools.settings.reload)
        await told.until("add")
    assert threads == told.threads == {threading.get_ident()}


async def test_many_changes_at_once_are_looked_at_once(monkeypatch):
    tools, loop = alone(add), asyncio.get_running_loop()
    told, looked = Told(tools), []
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *a, **_: looked.append(a))
    for number in range(100):
        tools.registry.register(lambda: None, name=f"tool_{number}")
    monkeypatch.undo()
    [(look,)] = looked
    look()
    assert told.times == 1
    tools.registry.unregister("add")
    await next_turn()
    assert told.times == 2


# --- MCP servers -----------------------------------------------------------------------------


class Lab:
    """A chain with one MCP server that lists the tools of a file."""

    def __init__(self, directory):
        self.listed = directory / "listed"
        self.tools = alone(add)
        self.server = forked("listing.py", self.listed)
        self.server["tools"] = {
            name: {"effect": "read", "retry_attempts": 0} for name in ("one", "exit", "announce")
        }

    def lists(self, *names):
        self.listed.write_text("\n".join(names))

    def configure(self, **servers):
        self.tools.settings.update({"mcp_servers": servers})


@pytest.fixture
def lab(tmp_path, forking):
    return Lab(tmp_path)


async def test_a_server_that_comes_and_goes_is_announced(lab):
    lab.lists("one")
    told = Told(lab.tools)
    async with Script(lab.tools) as stream:
        stream.say(add_part("1"))
        await stream.until_answered("1")
        lab.configure(lab=lab.server)
        await told.until("add", "one")
        lab.configure(lab=None)
        await told.until("add")
    assert told.times == 2


async def test_a_server_that_another_thread_has_set_up_comes_too(lab):
    lab.lists("one")
    told = Told(lab.tools)
    async with lab.tools:
        await asyncio.to_thread(lab.configure, lab=lab.server)
        await told.until("add", "one")


async def test_a_server_whose_tools_change_is_announced(lab):
    lab.lists("announce", "one")
    lab.configure(lab=lab.server)
    told = Told(lab.tools)
    async with Script(lab.tools) as stream:
        stream.say(add_part("1"))
        await told.until("add", "announce", "one")
        lab.lists("announce", "two")
        stream.say(call("announce", id="2"))
        await told.until("add", "announce", "two")
    assert told.times == 2


async def test_tools_of_a_server_that_went_down_stay_declared_and_are_unavailable(lab):
    lab.lists("exit", "one")
    lab.configure(lab=lab.server)
    told = Told(lab.tools)
    async with Script(lab.tools) as stream:
        stream.say(add_part("1"))
        await told.until("add", "exit", "one")
        before, told.times = lab.tools.declarations(), 0
        lab.listed.unlink()  # so that it does not come back
        stream.say(call("exit", id="2"))
        await stream.until_answered("2")
        stream.say(call("one", id="3"))
        heard = await stream.until_answered("3")
        assert [heard.by_id[i][0]["status"] for i in ("2", "3")] == ["unavailable"] * 2
        assert await lab.tools.ready(20) is False
        assert (lab.tools.declarations(), told.times) == (before, 0)
        lab.lists("exit", "one", "two")
        await told.until("add", "exit", "one", "two")
        assert told.times == 1


async def test_a_tool_taken_out_while_it_runs_still_answers():
    go_on, begun = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def slow() -> str:
        begun.set()
        await go_on.wait()
        return "done"

    tools = alone(slow, add)
    told = Told(tools)
    async with Script(tools) as stream, asyncio.timeout(20):
        stream.say(call("slow", id="1"))
        await begun.wait()
        tools.registry.unregister("slow")
        await told.until("add")
        go_on.set()
        heard = await stream.until_answered("1")
    assert heard.by_id["1"][0]["result"] == "done"


def names_of(declared):
    return {each.name for tool in declared for each in tool.function_declarations}


async def test_the_mode_of_a_session_hides_there_what_it_denies():
    @tool(effect="once", requires_approval=False)
    def send() -> None:
        """Sends."""

    @tool(effect="read")
    def look() -> None:
        """Looks."""

    tools = AdvancedToolProcessor([send, look], builtin_tools=False)
    session, other = ToolSession("kitchen"), ToolSession("hall")
    told, told_other, changed = [], [], asyncio.Event()

    def listen():
        told.append(names_of(tools.declarations(session)))
        changed.set()

    async def change():
        async with asyncio.timeout(10):
            await changed.wait()
        changed.clear()

    unsubscribe = tools.on_declarations_change(listen, session)
    tools.on_declarations_change(lambda: told_other.append(1), other)
    policy = session.get(SessionPolicy)
    policy.mode = "read_only"
    await change()
    policy.mode = "autonomous"
    await change()
    policy.preferred = Preferred(mode=Mode.READ_ONLY)  # the session's own mode goes before
    policy.mode = None
    await change()
    assert told == [{"look"}, {"send", "look"}, {"look"}]
    assert names_of(tools.declarations(other)) == names_of(tools.declarations()) == {"send", "look"}
    assert tools.declarations(session) == tools.declarations(session)
    tools.settings.update({"tools.look.enabled": False})
    await change()
    assert told[-1] == set()
    unsubscribe()
    policy.mode = "ask"
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(told) == 4
    assert len(told_other) == 1  # of `look`, which is switched off for all


def test_a_rule_of_a_session_hides_there_what_it_denies():
    @tool(effect="read")
    def look() -> None:
        """Looks."""

    tools = AdvancedToolProcessor([look], builtin_tools=False)
    session = ToolSession("kitchen")
    session.get(SessionPolicy).rules.append(Rule(name="no", decide=Decide.DENY, tools=["look"]))
    assert names_of(tools.declarations(session)) == set()
    assert names_of(tools.declarations()) == {"look"}


async def test_a_tool_enabled_again_runs_although_the_model_has_called_it_in_vain(tmp_path):
    file = tmp_path / "tools.yaml"
    file.write_text("tools: {add: {enabled: false}}\n")
    tools = AdvancedToolProcessor(tools=[add], config=file, builtin_tools=False)
    adopted = asyncio.Event()
    async with Script(tools) as stream:
        for number in range(6):
            stream.say(add_part(str(number)))
            heard = await stream.until_answered(str(number))
        assert heard.by_id["5"][0]["status"] == "loop"
        tools.settings.on_change(lambda _: adopted.set())
        file.write_text("tools: {add: {enabled: true}}\n")
        async with asyncio.timeout(20):
            await adopted.wait()
        stream.say(add_part("again"))
        heard = await stream.until_answered("again")
    assert heard.by_id["again"] == [ADDED]
