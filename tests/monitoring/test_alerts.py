import logging
from dataclasses import dataclass

import pytest

from leonidas_tools.monitoring.alerts import Alert, Alerts
from leonidas_tools.settings.models import MonitoringSettings


@dataclass(frozen=True, kw_only=True)
class Rule:
    name: str = "errors"
    metric: str = "error_rate"
    tool: str | None = None
    above: float = 0.5
    clear_below: float | None = 0.2
    min_calls: int = 0
    level: str = "warning"


@dataclass
class Gauge:
    """One figure that a test sets, and how often it was read."""

    value: float | None = None
    ended: int = 100
    read: int = 0

    def measure(self, metric, tool, now):
        self.read += 1
        return self.value

    def calls(self, tool):
        return self.ended


def heard(alerts):
    told = []
    alerts.subscribe(lambda alert: told.append((alert.state, alert.value)))
    return told


def test_an_alert_is_raised_once_and_cleared_once_below_the_lower_threshold():
    gauge = Gauge()
    alerts = Alerts(gauge, [Rule()])
    told = heard(alerts)
    for value in (0.1, 0.5, 0.6, 0.9, 0.4, 0.2, 0.6, 0.19, 0.4, 0.51):
        gauge.value = value
        alerts.evaluate(0.0)

    assert told == [("firing", 0.6), ("resolved", 0.19), ("firing", 0.51)]
    assert alerts.fired == {"errors": 2}


def test_without_a_lower_threshold_an_alert_clears_when_the_value_is_not_above():
    gauge = Gauge()
    alerts = Alerts(gauge, [Rule(above=0.0, clear_below=None)])
    told = heard(alerts)
    for value in (0.0, 0.1, 0.0):
        gauge.value = value
        alerts.evaluate(0.0)

    assert told == [("firing", 0.1), ("resolved", 0.0)]


def test_an_alert_says_what_it_is_about_and_since_when():
    gauge = Gauge(value=0.75)
    alerts = Alerts(gauge, [Rule(tool="book")])
    alerts.evaluate(10.0)
    gauge.value = 0.8
    alerts.evaluate(20.0)

    assert alerts.firing() == [
        Alert(
            name="errors",
            state="firing",
            metric="error_rate",
            tool="book",
            value=0.8,
            above=0.5,
            clear_below=0.2,
            since=10.0,
        )
    ]
    assert alerts.firing()[0].to_json() == {
        "name": "errors",
        "state": "firing",
        "metric": "error_rate",
        "tool": "book",
        "value": 0.8,
        "above": 0.5,
        "clear_below": 0.2,
        "since": 10.0,
        "message": "Alert 'errors': error_rate of 'book' is 0.8, above 0.5.",
    }


def test_nothing_is_raised_before_there_are_enough_calls():
    gauge = Gauge(value=1.0, ended=19)
    alerts = Alerts(gauge, [Rule(min_calls=20)])
    alerts.evaluate(0.0)
    assert alerts.firing_names() == []

    gauge.ended = 20
    alerts.evaluate(0.0)
    assert alerts.firing_names() == ["errors"]


def test_a_figure_that_is_gone_clears_the_alert():
    gauge = Gauge(value=1.0)
    alerts = Alerts(gauge, [Rule()])
    told = heard(alerts)
    alerts.evaluate(0.0)
    gauge.value = None
    alerts.evaluate(1.0)

    assert told == [("firing", 1.0), ("resolved", None)]


def test_rules_are_looked_at_when_calls_end_but_not_at_every_one(told):
    gauge = Gauge(value=0.0)
    alerts = Alerts(gauge, [Rule()])
    call = told.call()
    at = 1_700_000_000.0

    def end(when):
        alerts(told.event(told.end(call).kind, call, result=told.end(call).result, at=when))

    end(at)
    assert gauge.read == 1
    for _ in range(49):
        end(at + 0.05)
    assert gauge.read == 1
    end(at + 0.05)
    assert gauge.read == 2
    end(at + 0.2)
    assert gauge.read == 3
    alerts(told.start(call))
    assert gauge.read == 3


def test_alerts_are_logged(caplog):
    gauge = Gauge(value=1.0)
    alerts = Alerts(gauge, [Rule()])
    with caplog.at_level(logging.INFO):
        alerts.evaluate(0.0)
        gauge.value = 0.0
        alerts.evaluate(1.0)

    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "Alert 'errors': error_rate of all tools is 1, above 0.5."),
        ("INFO", "Alert 'errors': error_rate of all tools is 0, clear again."),
    ]


@pytest.mark.parametrize("level", ["info", "warning", "error", "critical"])
def test_an_alert_is_logged_at_the_level_of_its_rule(caplog, level):
    rules = [{"name": "errors", "metric": "error_rate", "above": 0.5, "level": level}]
    settings = MonitoringSettings(alerts=rules)
    with caplog.at_level(logging.INFO):
        Alerts(Gauge(value=1.0), settings.alerts).evaluate(0.0)
    assert [record.levelname for record in caplog.records] == [level.upper()]


def test_a_subscriber_that_fails_keeps_nothing_from_the_others(caplog):
    alerts = Alerts(Gauge(value=1.0), [Rule()])

    def fail(_):
        raise RuntimeError("no")

    alerts.subscribe(fail)
    told = heard(alerts)
    alerts.evaluate(0.0)

    assert told == [("firing", 1.0)]
    assert "A listener for alerts failed" in caplog.text


def test_a_subscription_can_be_ended():
    gauge = Gauge(value=1.0)
    alerts = Alerts(gauge, [Rule()])
    told = []
    end = alerts.subscribe(told.append)
    end()
    alerts.evaluate(0.0)

    assert told == []


def test_a_rule_that_is_dropped_takes_its_alert_back_and_one_that_stays_fires_on():
    alerts = Alerts(Gauge(value=1.0), [Rule(name="a"), Rule(name="b")])
    alerts.evaluate(0.0)
    told = []
    alerts.subscribe(lambda alert: told.append((alert.name, alert.state)))

    alerts.configure([Rule(name="b"), Rule(name="c")])

    assert told == [("a", "resolved"), ("c", "firing")]
    assert alerts.firing_names() == ["b", "c"]
    assert alerts.fired == {"b": 1, "c": 1}


@pytest.mark.parametrize("above", [0.5, 2.0])
def test_a_changed_threshold_holds_at_once(above):
    alerts = Alerts(Gauge(value=1.0), [Rule(above=0.9)])
    alerts.evaluate(0.0)

    alerts.configure([Rule(above=above, clear_below=None)])

    assert alerts.firing_names() == (["errors"] if above < 1 else [])
