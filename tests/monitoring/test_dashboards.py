"""The dashboard and the alert rules in `config/monitoring`, judged by Prometheus itself."""

import json
import re
import socket
import subprocess
import threading
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import yaml

from tests.monitoring.dashboard import FILE, PANELS, written
from tests.monitoring.test_prometheus import filled

ALERTS = FILE.with_name("alerts.yaml")
EXPRESSIONS = [query for _, _, queries in PANELS for _, query in queries]
METRIC = re.compile(r"\bleonidas_\w+")

needs_prometheus = pytest.mark.needs("promtool", "prometheus")


def rules():
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    return group["rules"]


def test_the_dashboard_in_the_folder_is_the_one_that_is_made():
    assert FILE.read_text() == written(), "run `python -m tests.monitoring.dashboard`"


def test_panels_and_rules_ask_only_for_metrics_that_the_page_has(told):
    page = filled(told).prometheus().exposition().decode()
    asked = {name for text in [*EXPRESSIONS, ALERTS.read_text()] for name in METRIC.findall(text)}
    there = set(METRIC.findall(page)) | {"leonidas_tool_breaker_open"}
    assert asked - there == set()


@needs_prometheus
def test_promtool_accepts_the_rules():
    check = subprocess.run(
        ["promtool", "check", "rules", ALERTS], capture_output=True, text=True, check=False
    )
    assert (check.returncode, check.stderr) == (0, "")


CALLS = 'leonidas_tool_calls_total{tool="pay",category="python",status="%s"}'
STEPS = [
    ("LeonidasToolFails", {CALLS % "failed": "0+3x20", CALLS % "ok": "0+7x20"}, "pay"),
    ("LeonidasBreakerOpen", {'leonidas_tool_breaker_open{tool="pay"}': "1x20"}, "pay"),
    (
        "LeonidasOutcomeUnknown",
        {CALLS % "unknown_outcome": "1x10 2x9", CALLS % "ok": "0+99x20"},
        "pay",
    ),
    (
        "LeonidasOutcomeUnknown",
        {CALLS % "unknown_outcome": "_x10 1x9", CALLS % "ok": "0+99x20"},
        "pay",
    ),
    ("LeonidasAlertFires", {'leonidas_alert_firing{alert="slow"}': "1x20"}, "slow"),
    (
        "LeonidasToolIsSlow",
        {
            'leonidas_tool_duration_seconds_bucket{tool="pay",le="5"}': "0x20",
            'leonidas_tool_duration_seconds_bucket{tool="pay",le="10"}': "0+9x20",
            'leonidas_tool_duration_seconds_bucket{tool="pay",le="+Inf"}': "0+9x20",
        },
        "pay",
    ),
    (None, {CALLS % "failed": "0+1x20", CALLS % "ok": "0+99x20"}, None),
]


@needs_prometheus
@pytest.mark.parametrize(("fires", "series", "about"), STEPS)
def test_an_alert_fires_when_it_should_and_no_other_does(tmp_path, fires, series, about):
    names = [rule["alert"] for rule in rules() if "alert" in rule]
    queries = [
        {
            "expr": f'count by (alertname) (ALERTS{{alertstate="firing", alertname="{name}"}})',
            "eval_time": "15m",
            "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1}]
            if name == fires
            else [],
        }
        for name in names
    ]
    test = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": each} for name, each in series.items()],
                "promql_expr_test": queries,
            }
        ],
    }
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump(test))
    ran = subprocess.run(
        ["promtool", "test", "rules", file], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert about is None or about in json.dumps(series)


@pytest.mark.slow
@needs_prometheus
def test_every_panel_and_rule_is_answered_by_a_prometheus_that_reads_the_page(told, tmp_path):
    monitor, pause = filled(told), threading.Event()
    with monitor.prometheus().serve() as address, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        host = urllib.parse.urlsplit(address).netloc
        config = {
            "global": {"scrape_interval": "200ms", "evaluation_interval": "200ms"},
            "rule_files": [str(ALERTS)],
            "scrape_configs": [{"job_name": "leonidas", "static_configs": [{"targets": [host]}]}],
        }
        file = tmp_path / "prometheus.yaml"
        file.write_text(yaml.safe_dump(config))
        log = (tmp_path / "log").open("w")
        with (
            log,
            subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={file}",
                    f"--storage.tsdb.path={tmp_path / 'data'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                stdout=log,
                stderr=log,
            ) as server,
        ):
            try:

                def ask(path):
                    try:
                        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
                            return json.load(answer)["data"]
                    except OSError:
                        return None

                def until(path, is_there):
                    while not ((data := ask(path)) and is_there(data)):
                        assert server.poll() is None, Path(log.name).read_text()
                        pause.wait(0.1)
                    return data

                for expression in EXPRESSIONS:
                    query = urllib.parse.quote(expression.replace("$__rate_interval", "10s"))
                    if "breaker" not in expression:  # no tool has one here
                        until(f"/api/v1/query?query={query}", lambda data: data["result"])
                (group,) = until("/api/v1/rules", lambda data: data["groups"])["groups"]
                found = until(
                    "/api/v1/rules",
                    lambda data: {rule["health"] for rule in data["groups"][0]["rules"]} == {"ok"},
                )["groups"][0]["rules"]
                assert {rule["name"] for rule in found} == {rule["name"] for rule in group["rules"]}
                assert len(found) == len(rules())
            finally:
                server.terminate()
