"""Whatever a session goes through: one answer to each call, and no frame of the user is lost."""

import pytest
from hypothesis import HealthCheck, Phase, event, given, seed, settings
from hypothesis import strategies as st

from leonidas_tools.simulator import GENERATIONS
from tests.live.generated.show import held
from tests.live.generated.steps import planned, scripts
from tests.live.generated.verdict import judge

SESSIONS = settings().max_examples // 10
BATCHES = [0, *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, 4))]


@pytest.mark.parametrize("generation", sorted(GENERATIONS))
@pytest.mark.parametrize("batch", BATCHES)
def test_every_promise_holds_in_whatever_session(generation, batch):
    @seed(batch * len(GENERATIONS) + sorted(GENERATIONS).index(generation))
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
