"""Sessions that go on after their connection, and servers that make it hard."""

import asyncio

import pytest
import websockets
from google.genai import errors, types

from leonidas_tools.errors import SimulatorError
from leonidas_tools.simulator import (
    Call,
    ConnectionRecord,
    Drop,
    ExpireHandles,
    GoAway,
    GoSilent,
    IssuedHandle,
    LiveSimulator,
    Pause,
    Quirks,
    Refusal,
    RefuseConnections,
    Scenario,
    SessionResumption,
    StallPongs,
    StopListening,
    TurnComplete,
    WaitForClose,
    WaitForInput,
)
from leonidas_tools.simulator.resumption import HandleRefusedError, SessionRegistry

pytestmark = pytest.mark.slow

IDLE = [WaitForInput("text", within_seconds=60)]
HANDED = [SessionResumption("h1"), *IDLE]


def resuming(handle=None):
    return {"session_resumption": types.SessionResumptionConfig(handle=handle)}


async def refusal_of(connect, simulator, handle=None):
    """The code and the reason that a connection is refused with."""
    with pytest.raises(errors.APIError) as refused:
        await connect(simulator, **resuming(handle)).__aenter__()
    return refused.value.code, refused.value.details


async def closing(session):
    with pytest.raises(errors.APIError) as closed:
        async for _ in session.receive():
            pass
    return closed.value.code, closed.value.details


async def test_a_resumed_connection_knows_its_session(connect):
    seen = []

    async def scenario(session):
        seen.append((session.number, session.session, session.resumed_from))
        await session.session_resumption(f"h{session.number}")
        await session.wait_for_close()

    async with LiveSimulator(scenario) as simulator:
        async with connect(simulator, **resuming()) as first:
            await anext(first.receive())
        async with connect(simulator, **resuming("h1")) as second:
            await anext(second.receive())
            async with connect(simulator, **resuming()) as another:
                await anext(another.receive())
        async with connect(simulator, **resuming("h1")) as third:
            await anext(third.receive())
        await simulator.finished(connections=4)
    assert seen == [(1, 1, None), (2, 1, 1), (3, 2, None), (4, 1, 2)]
    assert simulator.connections == (
        ConnectionRecord(number=1, session=1),
        ConnectionRecord(number=2, session=1, resumed_from=1, handle="h1"),
        ConnectionRecord(number=3, session=2),
        ConnectionRecord(number=4, session=1, resumed_from=2, handle="h1"),
    )
    assert simulator.handles[:2] == (
        IssuedHandle(connection=1, session=1, handle="h1"),
        IssuedHandle(connection=2, session=1, handle="h2"),
    )
    assert all(outcome.ok for outcome in simulator.outcomes)


async def test_an_unknown_handle_is_refused_and_takes_no_script(connect):
    scenario = Scenario(connections=[[TurnComplete()]])
    async with LiveSimulator(scenario) as simulator:
        refused = await refusal_of(connect, simulator, "lost")
        async with connect(simulator) as session:
            await anext(session.receive())
        assert (await simulator.finished()).ok
    assert refused == (1008, "no session has the handle 'lost'")
    assert simulator.refusals == (
        Refusal(stage="setup", code=1008, reason="no session has the handle 'lost'", connection=1),
    )
    assert [each.number for each in simulator.connections] == [2]


async def test_a_handle_lives_as_long_as_the_server_says_and_the_session_is_gone(connect):
    quirks = Quirks(handle_seconds=7200, unknown_handle_code=1007)
    async with LiveSimulator(Scenario(HANDED), quirks=quirks) as simulator:
        async with connect(simulator, **resuming()) as session:
            await anext(session.receive())
            await asyncio.wrap_future(simulator.advance(9000))
        await simulator.closed()
        await asyncio.wrap_future(simulator.advance(7000))
        async with connect(simulator, **resuming("h1")) as session:
            await anext(session.receive())
        await simulator.closed()
        await asyncio.wrap_future(simulator.advance(7201))
        assert await refusal_of(connect, simulator, "h1") == (1007, "the handle 'h1' has expired")


async def test_handles_can_be_made_to_expire(connect):
    scripts = [[SessionResumption("h1"), ExpireHandles(), SessionResumption("h2")], HANDED]
    async with LiveSimulator(Scenario(connections=scripts)) as simulator:
        async with connect(simulator, **resuming()):
            await simulator.finished(1)
        await simulator.closed()
        assert await refusal_of(connect, simulator, "h1") == (1008, "the handle 'h1' has expired")
        async with connect(simulator, **resuming("h2")) as session:
            await anext(session.receive())
        await simulator.closed()
        simulator.expire_handles()
        assert await refusal_of(connect, simulator, "h2") == (1008, "the handle 'h2' has expired")


async def test_resuming_while_the_old_connection_is_open_is_a_breach(connect):
    reason = "session 1 is resumed while its connection 1 is still open"
    async with LiveSimulator(Scenario(HANDED)) as simulator:
        async with connect(simulator, **resuming()) as session:
            await anext(session.receive())
            assert await refusal_of(connect, simulator, "h1") == (1011, reason)
            assert simulator.open_connections == (1,)
        async with connect(simulator, **resuming("h1")) as session:
            await anext(session.receive())
        with pytest.raises(SimulatorError, match=reason):
            simulator.check()
    assert [violation.close_code for violation in simulator.violations] == [1011]


async def test_a_lenient_server_resumes_beside_the_old_connection(connect):
    simulator = LiveSimulator(Scenario(HANDED), strict=False)
    async with simulator, connect(simulator, **resuming()) as session:
        await anext(session.receive())
        async with connect(simulator, **resuming("h1")) as another:
            await anext(another.receive())
            assert simulator.open_connections == (1, 2)


@pytest.mark.parametrize("times", [1, 20])
async def test_who_closes_first_may_resume_at_once(connect, times):
    async with LiveSimulator(Scenario(HANDED)) as simulator:
        async with connect(simulator, **resuming()) as session:
            await anext(session.receive())
        for _ in range(times):
            async with connect(simulator, **resuming("h1")) as session:
                await anext(session.receive())


async def test_who_was_dropped_may_resume_at_once(connect):
    scenario = Scenario(connections=[[SessionResumption("h1"), Drop()], HANDED])
    simulator = LiveSimulator(scenario)
    async with simulator, connect(simulator, **resuming()) as session:
        assert (await closing(session))[0] == 1006
        async with connect(simulator, **resuming("h1")) as another:
            await anext(another.receive())
    assert simulator.connections[1].resumed_from == 1


async def test_an_answer_after_the_resumption_is_refused_even_in_the_same_session(connect, reply):
    scripts = [[SessionResumption("h1"), Call.one("f", id="c1"), Drop()], IDLE]
    async with LiveSimulator(Scenario(connections=scripts)) as simulator:
        async with connect(simulator, "f", **resuming()) as session:
            await closing(session)
        async with connect(simulator, "f", **resuming("h1")) as session:
            await reply(session, types.FunctionCall(id="c1", name="f"))
            assert await closing(session) == (
                1007,
                "call 'c1' was issued on connection 1, not on this one",
            )
        with pytest.raises(SimulatorError):
            simulator.check()


async def test_client_content_after_a_resumption_is_no_history(connect):
    scenario = Scenario(connections=[HANDED, IDLE])
    async with LiveSimulator(scenario, generation="3.1") as simulator:
        async with connect(simulator, **resuming()) as session:
            await anext(session.receive())
        async with connect(simulator, **resuming("h1")) as session:
            turn = types.Content(role="user", parts=[types.Part(text="The flight costs 640.")])
            await session.send_client_content(turns=turn)
            assert (await closing(session))[0] == 1007
        with pytest.raises(SimulatorError, match="in the middle of a session"):
            simulator.check()


async def test_the_server_closes_when_the_time_after_go_away_is_over(connect):
    steps = [GoAway(10, close=True), Pause(3600)]
    async with LiveSimulator(Scenario(steps)) as simulator, connect(simulator) as session:
        await anext(session.receive())
        simulator.advance(10)
        assert await closing(session) == (1011, "the time left after goAway is over")


async def test_who_leaves_before_the_time_is_over_plays_the_scenario_to_its_end(connect):
    steps = [GoAway(10, close=True), WaitForClose()]
    async with LiveSimulator(Scenario(steps)) as simulator:
        async with connect(simulator) as session:
            await anext(session.receive())
        assert (await simulator.finished()).ok


async def test_who_does_not_leave_in_time_fails_the_scenario(connect):
    steps = [GoAway(10, close=True), WaitForClose()]
    simulator = LiveSimulator(Scenario(steps), strict=False)
    async with simulator, connect(simulator) as session:
        await anext(session.receive())
        simulator.advance(10)
        await closing(session)
        outcome = await simulator.finished()
    assert (
        outcome.message
        == "step 2 (wait_for_close): the server closed the connection, not the client"
    )


async def test_connections_to_come_are_refused_at_the_http_request_or_after_the_setup(connect):
    async with LiveSimulator(Scenario(connections=[IDLE])) as simulator:
        simulator.refuse_connections(http_status=503)
        simulator.refuse_connections(2, close_code=1011, reason="overloaded")
        with pytest.raises(websockets.InvalidStatus) as refused:
            await connect(simulator).__aenter__()
        assert await refusal_of(connect, simulator) == (1011, "overloaded")
        assert await refusal_of(connect, simulator) == (1011, "overloaded")
        async with connect(simulator):
            pass
        assert (await simulator.finished()).status == "left"
    assert refused.value.response.status_code == 503
    assert simulator.refusals == (
        Refusal(stage="http", code=503, reason="Service Unavailable"),
        Refusal(stage="setup", code=1011, reason="overloaded", connection=1),
        Refusal(stage="setup", code=1011, reason="overloaded", connection=2),
    )


async def test_a_scenario_can_refuse_connections_and_stop_listening(connect):
    steps = [RefuseConnections(http_status=429), StopListening(60)]
    simulator = LiveSimulator(Scenario(connections=[steps, IDLE]))
    async with simulator, connect(simulator):
        await simulator.finished(1)
        with pytest.raises(OSError):
            await connect(simulator).__aenter__()
        await asyncio.wrap_future(simulator.advance(60))
        with pytest.raises(websockets.InvalidStatus):
            await connect(simulator).__aenter__()
        async with connect(simulator):
            assert simulator.open_connections == (1, 2)


async def test_listening_can_be_paused_on_the_same_port(connect):
    async with LiveSimulator(Scenario(IDLE)) as simulator:
        url = simulator.base_url
        async with connect(simulator) as session:
            simulator.pause_listening()
            with pytest.raises(OSError):
                await connect(simulator).__aenter__()
            await session.send_realtime_input(text="still open")
            assert (await simulator.finished(1)).ok
            simulator.resume_listening()
            simulator.resume_listening()
            assert simulator.base_url == url
            async with connect(simulator):
                assert simulator.open_connections == (1, 2)


async def test_a_scenario_in_python_may_ask_the_simulator_itself(connect):
    async def scenario(session):
        simulator.pause_listening()
        await asyncio.wrap_future(simulator.resume_listening())
        simulator.refuse_connections(http_status=500)
        await session.pause(0.001)

    simulator = LiveSimulator(scenario)
    async with simulator, connect(simulator):
        assert (await simulator.finished()).ok
        with pytest.raises(websockets.InvalidStatus):
            await connect(simulator).__aenter__()


async def test_pongs_stall_as_long_as_the_scenario_says(connect_raw):
    scenario = Scenario([StallPongs(30), TurnComplete(), *IDLE])
    async with LiveSimulator(scenario) as simulator, connect_raw(simulator) as client:
        await client.set_up()
        assert await client.receive() == {"serverContent": {"turnComplete": True}}
        pong = await client.websocket.ping()
        await client.send({"realtimeInput": {"text": "hello"}})
        await asyncio.wrap_future(simulator.advance(29))
        assert not pong.done()
        assert simulator.texts_received == ()
        simulator.advance(1)
        await pong
        assert (await simulator.finished()).ok


async def test_a_silent_server_neither_answers_nor_closes_until_the_client_gives_up(connect_raw):
    scenario = Scenario([GoSilent()])
    async with LiveSimulator(scenario) as simulator, connect_raw(simulator) as client:
        await client.set_up()
        pong = await client.websocket.ping()
        await asyncio.wrap_future(simulator.advance(3600))
        assert not pong.done()
        assert simulator.open_connections == (1,)
        client.websocket.transport.abort()
        assert (await simulator.finished()).ok
        await simulator.closed()
        with pytest.raises(websockets.ConnectionClosed):
            await pong


async def test_connections_can_be_dropped_at_any_moment(connect):
    async with LiveSimulator(Scenario(IDLE)) as simulator:
        async with connect(simulator) as session:
            simulator.drop_connections()
            assert (await closing(session))[0] == 1006
        assert (await simulator.finished()).status == "left"


async def test_who_connects_and_says_nothing_does_not_keep_the_simulator():
    async with LiveSimulator(Scenario(IDLE)) as simulator:
        host, port = simulator.base_url.removeprefix("https://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
    assert await reader.read() == b""
    writer.close()


def test_a_session_has_ended_only_when_its_last_connection_has():
    open_connections = {1, 2}
    book = SessionRegistry(handle_seconds=100, is_open=open_connections.__contains__)
    session = book.begin(1, now=0.0)
    book.issue("h1", session)
    book.resume(session, 2)
    open_connections.remove(1)
    book.left(session, now=0)
    assert book.find("h1", now=1000) is session
    open_connections.remove(2)
    book.left(session, now=1000)
    assert book.find("h1", now=1100) is session
    with pytest.raises(HandleRefusedError, match="expired"):
        book.find("h1", now=1101)
    book.resume(session, 3)
    assert book.find("h1", now=5000) is session
