"""Dead air: silence in which a call keeps the user waiting is filled, once and in its time."""

import asyncio

from leonidas_tools.live.dead_air import DeadAir
from leonidas_tools.live.tool_options import Filler
from tests.policies.clock import in_no_time, now

TWO = Filler(after_seconds=2.0, sentence="One moment.")
SOON = Filler(after_seconds=0.5)
FRAME_SECONDS = 0.125
"""A length whose sums are exact."""


class Filled:
    """Notes what was filled, and when."""

    def __init__(self):
        self.times = {}
        self.air = DeadAir(self._note)

    def _note(self, call_id, filler):
        assert call_id not in self.times, "filled twice"
        self.times[call_id] = (now(), filler)

    async def speak(self, seconds):
        """The model speaks, one frame as the one before ends."""
        for _ in range(round(seconds / FRAME_SECONDS)):
            self.air.heard(FRAME_SECONDS)
            await asyncio.sleep(FRAME_SECONDS)


def timers():
    """What waits for its time on the loop; nothing public tells."""
    return [each for each in asyncio.get_running_loop()._scheduled if not each.cancelled()]


@in_no_time
async def test_silence_is_filled_once_after_its_time():
    filled = Filled()
    await asyncio.sleep(10)
    filled.air.called("1", TWO)
    await asyncio.sleep(3600)
    assert filled.times == {"1": (12.0, TWO)}
    assert timers() == []


@in_no_time
async def test_a_call_that_is_over_in_time_fills_nothing_and_leaves_no_timer():
    filled = Filled()
    filled.air.called("1", TWO)
    await asyncio.sleep(1.75)
    filled.air.answered("1")
    assert timers() == []
    await asyncio.sleep(10)
    assert filled.times == {}


@in_no_time
async def test_a_call_without_a_filler_fills_nothing():
    filled = Filled()
    filled.air.called("1", None)
    assert timers() == []
    filled.air.answered("1")
    filled.air.answered("never called")
    await asyncio.sleep(10)
    assert filled.times == {}


@in_no_time
async def test_while_the_model_speaks_there_is_no_silence():
    filled = Filled()
    filled.air.called("1", TWO)
    await asyncio.sleep(1)
    await filled.speak(5)
    await asyncio.sleep(10)
    assert filled.times == {"1": (8.0, TWO)}


@in_no_time
async def test_sound_that_came_at_once_counts_until_it_is_played():
    filled = Filled()
    filled.air.heard(1)
    filled.air.called("1", TWO)
    for _ in range(4):
        filled.air.heard(1)
    await asyncio.sleep(20)
    assert filled.times == {"1": (7.0, TWO)}


@in_no_time
async def test_sound_after_a_pause_counts_from_when_it_came():
    filled = Filled()
    filled.air.heard(1)
    await asyncio.sleep(5)
    filled.air.called("1", TWO)
    filled.air.heard(1)
    await asyncio.sleep(20)
    assert filled.times == {"1": (8.0, TWO)}


@in_no_time
async def test_silence_before_the_call_is_not_counted():
    filled = Filled()
    filled.air.heard(1)
    await asyncio.sleep(60)
    filled.air.called("1", TWO)
    await asyncio.sleep(20)
    assert filled.times == {"1": (62.0, TWO)}


@in_no_time
async def test_text_restarts_the_silence():
    filled = Filled()
    filled.air.called("1", TWO)
    await asyncio.sleep(1.5)
    filled.air.heard()
    await asyncio.sleep(20)
    assert filled.times == {"1": (3.5, TWO)}


@in_no_time
async def test_an_interruption_drops_what_was_not_played():
    filled = Filled()
    filled.air.called("1", TWO)
    filled.air.heard(60)
    await asyncio.sleep(3)
    filled.air.interrupted()
    await asyncio.sleep(20)
    assert filled.times == {"1": (5.0, TWO)}


@in_no_time
async def test_an_interruption_is_no_silence_itself():
    filled = Filled()
    filled.air.called("1", TWO)
    await asyncio.sleep(1.5)
    filled.air.interrupted()
    await asyncio.sleep(20)
    assert filled.times == {"1": (3.5, TWO)}


@in_no_time
async def test_the_shortest_patience_comes_first_in_any_order_of_calls():
    filled = Filled()
    filled.air.called("long", TWO)
    filled.air.called("short", SOON)
    await asyncio.sleep(20)
    assert filled.times == {"short": (0.5, SOON), "long": (2.5, TWO)}


@in_no_time
async def test_fillers_of_several_calls_do_not_come_at_once():
    filled = Filled()
    for call_id in "abc":
        filled.air.called(call_id, TWO)
    await asyncio.sleep(5)
    filled.air.answered("c")
    await asyncio.sleep(20)
    assert filled.times == {"a": (2.0, TWO), "b": (4.0, TWO)}
    assert timers() == []


@in_no_time
async def test_a_repeated_call_is_the_same_while_it_is_open():
    filled = Filled()
    filled.air.called("1", TWO)
    await asyncio.sleep(1)
    filled.air.called("1", SOON)
    await asyncio.sleep(9)
    filled.air.called("1", SOON)
    await asyncio.sleep(9)
    assert filled.times == {"1": (2.0, TWO)}


@in_no_time
async def test_a_second_call_is_filled_like_the_first():
    filled = Filled()
    filled.air.called("1", TWO)
    await asyncio.sleep(3)
    filled.air.answered("1")
    filled.air.called("2", TWO)
    await asyncio.sleep(20)
    assert filled.times == {"1": (2.0, TWO), "2": (5.0, TWO)}


@in_no_time
async def test_nothing_is_filled_after_the_end():
    filled = Filled()
    filled.air.called("1", TWO)
    filled.air.close()
    filled.air.close()
    assert timers() == []
    await asyncio.sleep(20)
    assert filled.times == {}


@in_no_time
async def test_who_fills_may_end_the_call():
    times = []

    def fill(call_id, filler):
        times.append((now(), call_id))
        air.answered(call_id)
        air.called("next", SOON)

    air = DeadAir(fill)
    air.called("1", TWO)
    await asyncio.sleep(2.75)
    air.close()
    assert times[:2] == [(2.0, "1"), (2.5, "next")]


def test_who_fills_may_raise(caplog):
    @in_no_time
    async def run():
        times = []

        def fill(call_id, filler):
            times.append((now(), call_id))
            raise OSError("the connection is gone")

        air = DeadAir(fill)
        air.called("1", TWO)
        air.called("2", TWO)
        await asyncio.sleep(20)
        assert times == [(2.0, "1"), (4.0, "2")]

    run()
    messages = [
        f"The silence during the call {number!r} was not filled: OSError" for number in "12"
    ]
    assert [record.message.partition(" at ")[0] for record in caplog.records] == messages


@in_no_time
async def test_a_thousand_frames_move_no_timer():
    filled = Filled()
    filled.air.called("1", TWO)
    [timer] = timers()
    for _ in range(1000):
        filled.air.heard(FRAME_SECONDS)
    assert timers() == [timer]
    await asyncio.sleep(600)
    assert filled.times == {"1": (127.0, TWO)}
