"""Whatever a session goes through: one answer to each call, and no frame of the user is lost."""

from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from leonidas_tools.live.simulator import GENERATIONS
from tests.live.generated.show import held
from tests.live.generated.steps import planned, scripts
from tests.live.generated.verdict import judge


@settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],  # to shrink what takes place in real time takes minutes
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    generation=st.sampled_from(sorted(GENERATIONS)),
    plan=st.lists(planned, min_size=6, max_size=12).map(tuple),
    steps=scripts(),
    unique_ids=st.booleans(),
)
def test_every_promise_holds_in_whatever_session(generation, plan, steps, unique_ids):
    show = held(generation=generation, plan=plan, steps=steps, unique_ids=unique_ids)
    event(f"{len(show.simulator.connections)} connections")
    judge(show)
