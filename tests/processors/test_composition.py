"""The stages alone, side by side, one after another, and among processors from elsewhere."""

import asyncio

import pytest
from genai_processors import content_api, processor
from genai_processors.content_api import ProcessorPart

from leonidas_tools import (
    ActionToolProcessor,
    AdvancedToolProcessor,
    CategoryProcessor,
    ConfigurationProcessor,
    GenericToolProcessor,
    MonitoringProcessor,
    PythonFunctionProcessor,
    RetryableError,
    SpeechControlProcessor,
    ToolCategory,
    ToolRegistry,
    ToolRegistryProcessor,
    tool,
    tool_request,
)
from tests.processors.chains import (
    ADDED,
    add,
    add_part,
    envelopes,
    hand_made,
    kinds,
    look_up,
    registry_of,
    statuses,
)
from tests.promises.faults.play import Script, audio, call, cancellation, play


@processor.processor_function
async def passing(content):
    async for part in content:
        yield part


@processor.part_processor_function
async def passing_parts(part: ProcessorPart):
    yield part


@processor.processor_function
async def marking(content):
    """Marks what it sees."""
    async for part in content:
        part.metadata["marked"] = True
        yield part


# --- each stage alone ------------------------------------------------------------------------


async def test_the_registry_alone_attaches_the_call_and_restores_its_id():
    heard = await play(ToolRegistryProcessor(registry_of()), [audio(1), add_part("7")])
    assert heard.frames == [1]
    recognised = heard.parts[1]
    assert recognised.function_call.id == "7"
    assert recognised.metadata["id"] == "7"
    attached = recognised.metadata["tool_call"]
    assert (attached.name, attached.id, attached.arguments) == ("add", "7", {"a": 1, "b": 2})
    assert attached.tool is add


async def test_the_registry_alone_answers_an_unknown_tool_with_the_closest_names():
    heard = await play(ToolRegistryProcessor(registry_of()), [call("ad", id="1")])
    envelope = envelopes(heard)["1"]
    assert (envelope["status"], envelope["reason_code"]) == ("not_found", "unknown_tool")
    assert envelope["valid_options"][0] == "add"


async def test_the_registry_does_not_change_the_part_it_was_given():
    given = add_part("7")
    before = given.to_dict()
    await play(ToolRegistryProcessor(registry_of()), [given])
    assert given.to_dict() == before
    assert given.function_call.id is None


async def test_configuration_alone_passes_what_it_does_not_know():
    parts = [audio(1), add_part(), ProcessorPart("hello")]
    heard = await play(ConfigurationProcessor({}), parts)
    assert [a is b for a, b in zip(heard.parts, parts, strict=True)] == [True] * 3


async def test_monitoring_alone_passes_what_it_does_not_know():
    parts = [audio(1), add_part(), cancellation("1"), ProcessorPart("hello")]
    heard = await play(MonitoringProcessor(), parts)
    assert [a is b for a, b in zip(heard.parts, parts, strict=True)] == [True] * 4


@pytest.mark.parametrize(
    "stage",
    [
        PythonFunctionProcessor([add]),
        PythonFunctionProcessor([add]).to_processor(),
        PythonFunctionProcessor([add]) + passing,
        passing + PythonFunctionProcessor([add]),
        PythonFunctionProcessor([add]) // SpeechControlProcessor(),
        PythonFunctionProcessor([add]) // processor.PASSTHROUGH_FALLBACK,
        PythonFunctionProcessor([add]) // processor.PASSTHROUGH_ALWAYS,
        SpeechControlProcessor() // PythonFunctionProcessor([add]) // GenericToolProcessor(),
        SpeechControlProcessor() // (ActionToolProcessor() // PythonFunctionProcessor([add])),
        PythonFunctionProcessor([add]) + ActionToolProcessor(),
        ActionToolProcessor() + PythonFunctionProcessor([add]),
        processor.chain([PythonFunctionProcessor([add])]),
        processor.chain([ActionToolProcessor(), PythonFunctionProcessor([add])]),
        passing_parts + PythonFunctionProcessor([add]),
        PythonFunctionProcessor([add]) + passing_parts,
        ToolRegistryProcessor(registry_of()) + PythonFunctionProcessor(),
        ToolRegistryProcessor(registry_of()) + PythonFunctionProcessor([add]),
        PythonFunctionProcessor([add]) + MonitoringProcessor(),
        ConfigurationProcessor({}) + PythonFunctionProcessor([add]) + MonitoringProcessor(),
        hand_made(),
        hand_made() + passing,
        passing + hand_made(),
        hand_made() + passing_parts,
        passing_parts + hand_made(),
        marking + hand_made() + marking,
        processor.chain([passing, hand_made(), passing_parts]),
        AdvancedToolProcessor(tools=[add]),
        passing + AdvancedToolProcessor(tools=[add]) + passing,
        passing_parts + AdvancedToolProcessor(tools=[add]) + passing_parts,
        AdvancedToolProcessor(tools=[add]) + AdvancedToolProcessor(tools=[add]),
        hand_made() + hand_made(),
        PythonFunctionProcessor([add]) + PythonFunctionProcessor([add]),
    ],
)
async def test_however_it_is_put_together_a_call_has_one_answer_and_all_else_passes(stage):
    text = ProcessorPart("hello", role="user", metadata={"turn": 1})
    stage = stage.to_processor()
    heard = await play(stage, [audio(1), add_part("c1"), text, cancellation("x"), audio(2)])
    assert heard.answers == [("c1", "add", ADDED)]
    assert heard.frames == [1, 2]
    assert text in heard.passed
    assert [p.tool_cancellation for p in heard.passed if p.tool_cancellation] == ["x"]
    assert not [p for p in heard.passed if p.function_call]


# --- a category as a part processor ----------------------------------------------------------


async def test_a_category_runs_one_call_as_a_part_processor():
    python = PythonFunctionProcessor([add])
    async with asyncio.timeout(10):
        async with processor.context():
            answers = [part async for part in python(add_part("c1"))]
            passed = [part async for part in python(ProcessorPart("hello"))]
    assert [(p.function_response.id, p.function_response.response) for p in answers] == [
        ("c1", ADDED)
    ]
    assert [p.text for p in passed] == ["hello"]


async def test_a_category_runs_over_parts_one_by_one_when_applied_as_upstream_does():
    group = ActionToolProcessor() // PythonFunctionProcessor([add])
    text = ProcessorPart("hello")
    async with processor.context():
        found = [part async for part in group(add_part("c1"))]
        found += [part async for part in group(text)]
    assert found[0].function_response.response == ADDED
    assert found[1] is text


@pytest.mark.parametrize(
    "part",
    [
        ProcessorPart("add"),
        ProcessorPart(""),
        audio(1),
        cancellation("1"),
        ProcessorPart(content_api.genai_types.Part()),
        ProcessorPart(
            content_api.genai_types.Part(function_call=content_api.genai_types.FunctionCall())
        ),
        call("other", id="1"),
        call("", id="1"),
        call("think", id="1"),
        tool_request("list_tools"),
    ],
)
def test_match_is_false_for_what_is_not_its_call_and_never_raises(part):
    assert PythonFunctionProcessor([add]).match(part) is False
    assert (PythonFunctionProcessor([add]) // GenericToolProcessor()).match(part) is False


def test_match_is_true_for_its_call():
    assert PythonFunctionProcessor([add]).match(add_part())
    assert (GenericToolProcessor() // PythonFunctionProcessor([add])).match(add_part())


async def test_a_call_of_a_tool_it_does_not_have_passes_a_category():
    part = call("other", id="1")
    heard = await play(PythonFunctionProcessor([add]).to_processor(), [part])
    assert heard.parts == [part]


async def test_beside_an_upstream_part_processor_a_category_still_answers():
    @processor.part_processor_function(match_fn=lambda part: bool(part.part.text))
    async def shout(part: ProcessorPart):
        yield ProcessorPart(part.text.upper())

    beside = PythonFunctionProcessor([add]) // shout
    heard = await play(beside.to_processor(), [add_part("c1"), ProcessorPart("shout")])
    assert heard.answers == [("c1", "add", ADDED)]
    assert [part.text for part in heard.passed] == ["SHOUT"]


@processor.part_processor_function
async def copying(part: ProcessorPart):
    yield ProcessorPart(part)


@processor.part_processor_function(match_fn=lambda part: part.function_call is not None)
async def passing_calls(part: ProcessorPart):
    yield part


def beside_others():
    """Categories beside part processors of upstream that get the calls as well."""
    for other in (
        passing_parts,
        copying,
        passing_calls,
        passing_parts // copying,
        passing_parts // processor.PASSTHROUGH_ALWAYS,
        passing_parts + copying,
        processor.create_filter(lambda _: True),
        processor.parallel([passing_parts, copying]),
    ):
        yield lambda python, other=other: python // other
        yield lambda python, other=other: python // other // other
        yield lambda python, other=other: SpeechControlProcessor() // (python // other)
        yield lambda python, other=other: (SpeechControlProcessor() // other) // python
        yield lambda python, other=other: python // other // processor.PASSTHROUGH_FALLBACK
        yield lambda python, other=other: processor.PASSTHROUGH_ALWAYS + (python // other)


@pytest.mark.parametrize("beside", [*beside_others()])
async def test_beside_what_passes_every_part_a_call_is_answered_once(beside):
    runs = []

    @tool(name="add")
    async def count(a: int, b: int) -> int:
        runs.append(a)
        return a + b

    registry = registry_of()
    registry.unregister("add")
    registry.register(count)
    monitoring = MonitoringProcessor()
    chain = (
        ToolRegistryProcessor(registry)
        + ConfigurationProcessor()
        + beside(PythonFunctionProcessor())
        + monitoring
    )
    raw = beside(PythonFunctionProcessor([count])).to_processor() + PythonFunctionProcessor([count])
    for stage in (chain, raw):
        runs.clear()
        heard = await play(stage, [add_part("c1"), audio(1), cancellation("x"), audio(2)])
        assert heard.answers == [("c1", "add", ADDED)]
        assert runs == [1]
        assert not [part for part in heard.passed if part.function_call]
        assert set(heard.frames) == {1, 2}
    assert monitoring.monitor.ledger.to_json()["ended"] == 1


async def test_beside_another_processor_a_cancelled_call_is_not_answered():
    begun = asyncio.Event()

    @tool(effect="read")
    async def waiting() -> None:
        begun.set()
        await asyncio.Event().wait()

    chain = ToolRegistryProcessor(registry_of(waiting)) + (
        PythonFunctionProcessor() // passing_parts
    )
    async with Script(chain + MonitoringProcessor()) as script:
        script.say(call("waiting", id="1"))
        await begun.wait()
        script.say(cancellation("1"), add_part("2"))
        heard = await script.until_answered("2")
    assert [answer[0] for answer in heard.answers] == ["2"]


@pytest.mark.parametrize("list_of", [lambda a, b: [a, b], lambda a, b: [b, a]])
async def test_a_call_that_goes_two_ways_is_answered_by_the_stage_that_takes_it(list_of):
    two_ways = processor.parallel(list_of(passing_parts, PythonFunctionProcessor()))
    twice = processor.parallel(list_of(PythonFunctionProcessor(), PythonFunctionProcessor()))
    for stage in (two_ways, twice, (passing_parts + PythonFunctionProcessor()) // copying):
        chain = (
            ToolRegistryProcessor(registry_of())
            + ConfigurationProcessor()
            + stage
            + MonitoringProcessor()
        )
        assert (await play(chain, [add_part("c1")])).answers == [("c1", "add", ADDED)]


@pytest.mark.parametrize(
    ("compose", "advice"),
    [
        (lambda: passing_parts // PythonFunctionProcessor(), "category // other"),
        (lambda: processor.PASSTHROUGH_ALWAYS // PythonFunctionProcessor(), "category // other"),
        (lambda: (passing_parts // copying) // PythonFunctionProcessor(), "category // other"),
        (
            lambda: passing_parts // (PythonFunctionProcessor() // SpeechControlProcessor()),
            "category // other",
        ),
        (lambda: PythonFunctionProcessor() // passing, r"with `\+`"),
        (lambda: PythonFunctionProcessor() // AdvancedToolProcessor(), r"with `\+`"),
        (lambda: PythonFunctionProcessor() // add, r"with `\+`"),
        (lambda: PythonFunctionProcessor() // None, r"with `\+`"),
        (lambda: PythonFunctionProcessor() + add, "give a processor"),
        (lambda: AdvancedToolProcessor() + None, "give a processor"),
        (lambda: AdvancedToolProcessor() // AdvancedToolProcessor(), "unsupported operand"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_composed(compose, advice):
    with pytest.raises(TypeError, match=advice):
        compose()


def test_what_a_category_brings_is_of_its_category():
    assert [t.metadata.category for t in SpeechControlProcessor([add]).tools] == [
        ToolCategory.SPEECH
    ]
    assert [t.metadata.category for t in GenericToolProcessor([look_up]).tools] == [
        ToolCategory.DATA
    ]


async def test_a_new_category_is_a_subclass_and_nothing_else():
    class DataProcessor(CategoryProcessor):
        categories = frozenset({ToolCategory.DATA})

    chain = (
        ToolRegistryProcessor(registry_of())
        + ConfigurationProcessor()
        + (PythonFunctionProcessor() // DataProcessor())
        + MonitoringProcessor()
    )
    heard = await play(chain, [call("look_up", {"key": "a"}, id="1"), add_part("2")])
    assert envelopes(heard) == {
        "1": {"status": "ok", "result": "A", "retryable": False},
        "2": ADDED,
    }
    alone = await play(
        DataProcessor([look_up]).to_processor(), [call("look_up", {"key": "a"}, id="1")]
    )
    assert statuses(alone) == {"1": "ok"}


# --- the whole chain by hand -----------------------------------------------------------------


async def test_the_hand_made_chain_runs_every_category():
    monitoring = MonitoringProcessor()
    heard = await play(
        hand_made(monitoring=monitoring),
        [
            audio(1),
            add_part("python"),
            call("think", {"analysis": "a", "reasoning": "r", "plan": "p"}, id="action"),
            call("set_speech_rate", {"rate": 1.5}, id="speech"),
            call("nobody", id="unknown"),
            audio(2),
        ],
    )
    assert statuses(heard) == {
        "python": "ok",
        "action": "ok",
        "speech": "ok",
        "unknown": "not_found",
    }
    assert heard.frames == [1, 2]
    assert monitoring.monitor.ledger.to_json() == {
        "seen": 4,
        "started": 3,
        "ended": 4,
        "cancelled": 0,
        "in_flight": 0,
        "protocol_errors": 0,
    }


async def test_a_call_that_no_category_claims_is_answered_by_monitoring():
    monitoring = MonitoringProcessor()
    heard = await play(
        hand_made(monitoring=monitoring), [call("look_up", {"key": "a"}, id="1"), add_part("2")]
    )
    assert envelopes(heard) == {
        "1": {
            "status": "unavailable",
            "message": "No processor runs tools of the category 'data'. Continue without "
            "this tool.",
            "retryable": False,
            "reason_code": "no_category",
        },
        "2": ADDED,
    }
    assert monitoring.monitor.ledger.seen == 2


async def test_the_settings_of_the_ready_chain_hold_for_calls_that_a_registry_before_it_has_taken():
    registry = registry_of()
    config = {
        "tools": {"add": {"enabled": False}},
        "policies": {"rules": [{"name": "no looking", "tools": "look_up", "decide": "deny"}]},
    }
    tools = AdvancedToolProcessor(registry=registry, config=config)
    calls = [add_part("off"), call("look_up", {"key": "a"}, id="denied"), call("nobody", id="?")]
    heard = await play(ToolRegistryProcessor(registry) + tools, calls)
    assert statuses(heard) == {"off": "disabled", "denied": "denied", "?": "not_found"}
    recorded = {each["status"] for each in tools.monitor.history()}
    assert recorded == {"disabled", "denied", "not_found"}


async def test_the_settings_of_the_hand_made_chain_hold_and_a_disabled_tool_is_refused():
    @tool(effect="read")
    async def slow() -> None:
        await asyncio.Event().wait()

    config = {"tools": {"add": {"enabled": False}, "slow": {"timeout": 0.02}}}
    heard = await play(
        hand_made(registry_of(slow), config), [add_part("off"), call("slow", id="slow")]
    )
    assert statuses(heard) == {"off": "disabled", "slow": "timeout"}


@pytest.mark.parametrize(
    ("config", "status"),
    [
        ({"tools": {"add": {"enabled": False}}}, "disabled"),
        ({"tools": {"add": {"requires_approval": True}}}, "pending_approval"),
        ({"policies": {"mode": "read_only"}}, "denied"),
        ({"policies": {"rules": [{"name": "r", "tools": "add", "decide": "deny"}]}}, "denied"),
        ({}, "ok"),
    ],
)
async def test_the_settings_of_the_ready_chain_hold_behind_a_registry_stage(config, status):
    @tool(name="add", effect="once")
    async def change(a: int, b: int) -> int:
        return a + b

    registry = ToolRegistry([change])
    ready = AdvancedToolProcessor(registry=registry, config=config)
    heard = await play(ToolRegistryProcessor(registry) + ready, [add_part("c1")])
    assert [(id_, response["status"]) for id_, _, response in heard.answers] == [("c1", status)]
    assert [(each["call_id"], each["status"]) for each in ready.monitor.history()] == [
        ("c1", status)
    ]


async def test_the_settings_of_the_hand_made_chain_may_be_a_file(tmp_path):
    file = tmp_path / "tools.yaml"
    file.write_text("tools: {add: {status: maintenance}}")
    heard = await play(hand_made(config=file), [add_part("1")])
    assert envelopes(heard)["1"]["reason_code"] == "maintenance"


async def test_each_call_is_counted_once_however_it_ends(chain_of):
    tries, begun = [], asyncio.Event()

    @tool(effect="read", retry_attempts=2)
    async def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise RetryableError("not yet")
        return "now"

    @tool(effect="read", lane="waiting")
    async def waiting() -> None:
        begun.set()
        await asyncio.Event().wait()

    chain = chain_of(flaky, waiting)
    async with Script(chain) as script:
        script.say(call("flaky", id="flaky"), call("waiting", id="waiting"), add_part("add"))
        script.say(call("add", {"a": "x"}, id="bad"), call("nobody", id="unknown"))
        await begun.wait()
        script.say(cancellation("waiting"))
        heard = await script.until_answered("flaky", "add", "bad", "unknown")
        await script.until_event("tool_cancel", "waiting")
    assert statuses(heard) == {
        "flaky": "ok", "add": "ok", "bad": "invalid_argument", "unknown": "not_found",
    }  # fmt: skip
    assert kinds(heard, "flaky") == ["tool_start", "tool_retry", "tool_retry", "tool_complete"]
    assert kinds(heard, "waiting") == ["tool_start", "tool_cancel"]
    assert kinds(heard, "add") == ["tool_start", "tool_complete"]
    assert kinds(heard, "bad") == ["tool_start", "tool_error"]
    assert chain_of.monitor.ledger.to_json() == {
        "seen": 5,
        "started": 4,
        "ended": 5,
        "cancelled": 1,
        "in_flight": 0,
        "protocol_errors": 0,
    }
    metrics = chain_of.monitor.metrics()
    assert metrics["tools"]["flaky"]["executions"] == 1
    assert metrics["tools"]["add"]["executions"] == 2


async def test_two_streams_of_one_hand_made_chain_count_each_call_once():
    monitoring = MonitoringProcessor()
    chain = hand_made(monitoring=monitoring)
    async with processor.context():
        for _ in range(2):  # one after the other in the same task
            async for _ in chain([add_part("1")]):
                pass
    await asyncio.gather(*(play(chain, [add_part("1")]) for _ in range(3)))
    assert monitoring.monitor.ledger.seen == 5
    assert monitoring.monitor.metrics("add")["executions"] == 5


async def test_two_hand_made_chains_in_one_task_count_only_their_own_calls():
    one, two = MonitoringProcessor(), MonitoringProcessor()
    async with processor.context():
        for monitoring in (one, two):
            async for _ in hand_made(monitoring=monitoring)([add_part("1")]):
                pass
    assert (one.monitor.ledger.seen, two.monitor.ledger.seen) == (1, 1)


async def test_what_the_stages_attach_does_not_leave_the_chain(chain_of):
    heard = await play(chain_of(), [add_part("1"), call("look_up", {"key": "k"}, id="2"), audio(1)])
    attached = {"tool_call", "tool_executor", "tool_request"}
    assert [attached & part.metadata.keys() for part in heard.parts] == [set()] * len(heard.parts)


async def test_a_call_that_no_stage_has_recognised_leaves_without_what_was_attached():
    half = ToolRegistryProcessor(registry_of()) + PythonFunctionProcessor()
    heard = await play(half, [call("look_up", {"key": "k"}, id="1")])
    assert heard.answers == []
    assert heard.parts[0].function_call.id == "1"


# --- ids -------------------------------------------------------------------------------------


async def test_an_id_in_the_metadata_is_in_the_answer(chain_of):
    heard = await play(chain_of(), [add_part("live-1")])
    assert heard.answers == [("live-1", "add", ADDED)]


async def test_an_id_in_the_call_goes_before_one_in_the_metadata(chain_of):
    inner = content_api.genai_types.FunctionCall(id="own", name="add", args={"a": 1, "b": 2})
    part = ProcessorPart(
        content_api.genai_types.Part(function_call=inner), metadata={"id": "other"}
    )
    heard = await play(chain_of(), [part])
    assert [answer[0] for answer in heard.answers] == ["own"]


async def test_calls_without_an_id_are_each_answered_without_one(chain_of):
    heard = await play(chain_of(), [add_part(None), add_part(None)])
    assert heard.answers == [(None, "add", ADDED)] * 2


async def test_a_repeated_id_is_run_and_answered_once(chain_of):
    ran = []

    @tool(effect="once")
    async def charge() -> str:
        ran.append(1)
        return "charged"

    chain = chain_of(charge)
    async with Script(chain) as script:
        script.say(call("charge", id="1"), call("charge", id="1"))
        await script.until_answered("1")
        script.say(call("charge", id="1"), audio(1))
        heard = await script.until_frame(1)
    assert statuses(heard) == {"1": "ok"}
    assert ran == [1]
    assert chain_of.monitor.ledger.seen == 1


async def test_another_stream_may_use_the_same_id(chain_of):
    chain = chain_of()
    for _ in range(2):
        assert (await play(chain, [add_part("1")])).answers == [("1", "add", ADDED)]


# --- nothing waits ---------------------------------------------------------------------------


async def test_fifty_tools_that_wait_hold_back_no_audio(chain_of):
    go_on, begun = asyncio.Event(), []

    @tool(effect="read")
    async def blocked(n: int) -> int:
        begun.append(n)
        await go_on.wait()
        return n

    parts = []
    for n in range(50):
        parts += [call("blocked", {"n": n}, id=f"c{n}"), audio(2 * n), audio(2 * n + 1)]
    async with Script(chain_of(blocked)) as script:
        script.say(*parts)
        heard = await script.until(lambda heard: len(heard.frames) == 100 and len(begun) == 50)
        assert heard.frames == list(range(100))
        assert heard.answers == []
        go_on.set()
        await script.until_answered(*(f"c{n}" for n in range(50)))
    assert statuses(script.heard) == {f"c{n}": "ok" for n in range(50)}


async def test_a_cancellation_overtakes_the_calls_that_run(chain_of):
    stopped, go_on = asyncio.Event(), asyncio.Event()

    @tool(effect="read", lane="a")
    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    @tool(effect="read", lane="b")
    async def other() -> str:
        await go_on.wait()
        return "done"

    async with Script(chain_of(endless, other)) as script:
        script.say(call("other", id="other"), call("endless", id="endless"))
        await script.until_event("tool_start", "endless")
        script.say(cancellation("endless"), audio(1))
        async with asyncio.timeout(10):
            await stopped.wait()
        heard = await script.until_frame(1)
        assert heard.answers == []
        go_on.set()
        await script.until_answered("other")
    assert statuses(script.heard) == {"other": "ok"}
    passed = [part.tool_cancellation for part in heard.passed if part.tool_cancellation]
    assert passed == ["endless"]


async def test_answers_come_in_the_order_in_which_the_tools_end(chain_of):
    doors = {n: asyncio.Event() for n in range(3)}

    @tool(effect="read")
    async def through(n: int) -> int:
        await doors[n].wait()
        return n

    async with Script(chain_of(through)) as script:
        script.say(*(call("through", {"n": n}, id=str(n)) for n in range(3)))
        for n in (2, 0, 1):
            doors[n].set()
            await script.until_answered(str(n))
    assert [answer[0] for answer in script.heard.answers] == ["2", "0", "1"]


async def test_a_call_behind_a_plain_upstream_processor_still_holds_back_nothing():
    go_on = asyncio.Event()

    @tool(effect="read")
    async def blocked() -> None:
        await go_on.wait()

    chain = passing_parts + hand_made(registry_of(blocked)) + passing_parts + passing
    async with Script(chain) as script:
        script.say(call("blocked", id="1"), *(audio(n) for n in range(20)))
        heard = await script.until_frame(19)
        assert (heard.frames, heard.answers) == (list(range(20)), [])
        go_on.set()
        await script.until_answered("1")
