import time
from dataclasses import dataclass, field

import pytest

from leonidas_tools.monitoring.health import Health, HealthReport, ToolHealth, Vitals


@dataclass(frozen=True, kw_only=True)
class Call:
    tool: str = "book"
    trace_id: str = "kitchen-1"
    seconds: float = 1.0


@dataclass
class Figures:
    """Error rates by tool, `None` standing for the system."""

    rates: dict[str | None, float] = field(default_factory=dict)
    ended: int = 100

    def names(self):
        return [name for name in self.rates if name is not None]

    def measure(self, metric, tool, now):
        assert metric == "error_rate"
        return self.rates.get(tool)

    def calls(self, tool):
        return self.ended


@dataclass
class Calls:
    open: list[Call] = field(default_factory=list)
    protocol_errors: int = 0

    def running(self):
        return self.open


@dataclass(frozen=True)
class Firing:
    sentence: str = "Alert 'slow' is firing."


def judge(rates=None, *, ended=100, calls=None, alerts=(), **vitals):
    known = {name: (lambda value=value: value) for name, value in vitals.items()}
    figures = Figures(rates or {}, ended)
    return Health(figures, calls or Calls(), lambda: alerts, Vitals(**known)).report()


def test_a_system_that_has_done_nothing_is_healthy():
    before = time.time()
    report = judge()

    assert report == HealthReport(status="healthy", reasons=[], alerts=[], at=report.at)
    assert report.at >= before


@pytest.mark.parametrize(
    ("rate", "state"),
    [(0.0, "healthy"), (0.09, "healthy"), (0.1, "degraded"), (0.5, "unhealthy")],
)
def test_a_tool_is_judged_by_its_recent_error_rate(rate, state):
    report = judge({"book": rate})

    assert report.tools == {"book": ToolHealth(state=state, error_rate=rate)}
    assert report.status == ("healthy" if state == "healthy" else "degraded")


def test_fewer_than_five_calls_say_nothing():
    assert judge({None: 1.0, "book": 1.0}, ended=4).status == "healthy"
    assert judge({None: 1.0, "book": 1.0}, ended=5).status == "unhealthy"


@pytest.mark.parametrize(
    ("found", "status", "reason"),
    [
        ({"rates": {None: 0.2}}, "degraded", "20% of the recent calls failed."),
        ({"rates": {None: 0.6}}, "unhealthy", "60% of the recent calls failed."),
        ({"rates": {"book": 0.6}}, "degraded", "60% of the recent calls of 'book' failed."),
        (
            {"calls": Calls(protocol_errors=1)},
            "unhealthy",
            "Calls that started or ended a second time: 1.",
        ),
        (
            {"calls": Calls(open=[Call(seconds=400), Call(seconds=300), Call()])},
            "degraded",
            ("Calls running for 300 s or more: 2; the oldest of 'book' (kitchen-1) for 400 s."),
        ),
        (
            {"abandoned_threads": 3},
            "degraded",
            "Threads that still run after their calls have ended: 3.",
        ),
        (
            {"settings_error": "tools.yaml:3: tools.book.timeout: is not a duration"},
            "degraded",
            (
                "The settings file is invalid; the last valid settings stay in use: "
                "tools.yaml:3: tools.book.timeout: is not a duration"
            ),
        ),
        (
            {"loop_lag_seconds": 0.25},
            "degraded",
            "The event loop lags by 0.25 s: a tool blocks it.",
        ),
        (
            {"loop_lag_seconds": 1.5},
            "unhealthy",
            "The event loop lags by 1.50 s: a tool blocks it.",
        ),
        ({"alerts": [Firing()]}, "degraded", "Alert 'slow' is firing."),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(found, status, reason):
    report = judge(**found)

    assert (report.status, report.reasons) == (status, [reason])


def test_the_worst_is_said_first():
    report = judge({"book": 0.3}, loop_lag_seconds=2.0, abandoned_threads=1)

    assert report.status == "unhealthy"
    assert report.reasons[0].startswith("The event loop")
    assert len(report.reasons) == 3


def test_the_report_is_plain_json():
    report = judge(
        {"book": 0.3},
        calls=Calls(open=[Call()]),
        alerts=[Firing()],
        abandoned_threads=2,
        settings_error="broken",
        loop_lag_seconds=0.01,
    )

    assert report.to_json() == {
        "status": "degraded",
        "reasons": [
            "30% of the recent calls of 'book' failed.",
            "Threads that still run after their calls have ended: 2.",
            "The settings file is invalid; the last valid settings stay in use: broken",
            "Alert 'slow' is firing.",
        ],
        "tools": {"book": {"state": "degraded", "error_rate": 0.3}},
        "in_flight": 1,
        "oldest_call": {"tool": "book", "trace_id": "kitchen-1", "seconds": 1.0},
        "abandoned_threads": 2,
        "alerts": ["Alert 'slow' is firing."],
        "settings_error": "broken",
        "errors": [{"level": "pipeline", "message": "broken"}],
        "loop_lag_seconds": 0.01,
        "breakers": {},
        "at": report.at,
    }
