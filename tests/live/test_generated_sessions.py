"""Whatever a session goes through: one answer to each call, and no frame of the user is lost."""

from contextlib import closing

import pytest
from hypothesis import HealthCheck, Phase, event, given, seed, settings
from hypothesis import strategies as st

from leonidas_tools.simulator import GENERATIONS
from tests.live.generated.fuzz import BATCH_SESSIONS, Batch, Kept, Result, main, play
from tests.live.generated.show import held
from tests.live.generated.steps import planned, scripts
from tests.live.generated.verdict import judge

SESSIONS = settings().max_examples // 10
VIRTUAL_SESSIONS = settings().max_examples // 5


@pytest.mark.parametrize("generation", sorted(GENERATIONS))
def test_every_promise_holds_in_any_session(generation):
    @seed(sorted(GENERATIONS).index(generation))
    @settings(
        max_examples=SESSIONS,
        database=None,
        deadline=None,
        phases=[Phase.generate],  # to shrink what takes place in real time takes minutes
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(
        plan=st.lists(planned, min_size=6, max_size=12).map(tuple),
        steps=scripts(),
        unique_ids=st.booleans(),
    )
    def hold(plan, steps, unique_ids):
        show = held(generation=generation, plan=plan, steps=steps, unique_ids=unique_ids)
        event(f"{len(show.simulator.connections)} connections")
        judge(show)

    hold()


@pytest.mark.parametrize("number", range(len(GENERATIONS)))
def test_every_promise_holds_in_virtual_time(number):
    assert play(Batch(number=number, sessions=VIRTUAL_SESSIONS)).failure is None


@pytest.mark.slow
def test_the_session_that_breaks_a_promise_is_shown_as_small_as_can_be():
    def refuses_drops(show):
        assert len(show.simulator.connections) == 1, "a connection was lost"

    result = play(Batch(number=1, sessions=20), refuses_drops)
    assert "AssertionError: a connection was lost" in result.failure
    assert "steps=(" in result.failure


def test_a_batch_that_failed_is_played_again_and_one_that_is_done_is_not(tmp_path):
    done, failed = Batch(number=0), Batch(number=1)
    with closing(Kept(tmp_path / "fuzz.sqlite")) as kept:
        kept.add(Result(batch=done, sessions=BATCH_SESSIONS, seconds=1, failure=None))
        kept.add(Result(batch=failed, sessions=7, seconds=1, failure="lost"))
    with closing(Kept(tmp_path / "fuzz.sqlite")) as kept:
        assert kept.missing(BATCH_SESSIONS) == []
        assert kept.missing(2 * BATCH_SESSIONS + 5) == [failed, Batch(number=2, sessions=5)]
        assert kept.count() == BATCH_SESSIONS + 7
        assert kept.failures() == [(1, "lost")]


@pytest.mark.slow
def test_the_fuzz_plays_what_is_missing_and_nothing_else(tmp_path, capsys):
    arguments = ["--sessions", "5", "--jobs", "1", "--file", str(tmp_path / "fuzz.sqlite")]
    assert main(arguments) == 0
    assert "5 of 5 sessions" in capsys.readouterr().out
    assert main(arguments) == 0
    assert capsys.readouterr().out.startswith("5 sessions, 0 batches failed")
