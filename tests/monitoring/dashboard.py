"""The dashboard for Grafana: `python -m tests.monitoring.dashboard` writes it again."""

import json
from pathlib import Path

FILE = Path(__file__).parents[2] / "config" / "monitoring" / "grafana.json"
_SOURCE = {"type": "prometheus", "uid": "${source}"}
_WIDTH, _HEIGHT = 12, 8

_CALLS = "sum by (tool) (rate(leonidas_tool_calls_total%s[$__rate_interval]))"
_FAILED = '{status=~"failed|timeout|unavailable|unknown_outcome"}'
_BUCKETS = "sum by (tool, le) (rate(leonidas_tool_duration_seconds_bucket[$__rate_interval]))"

PANELS = [
    (
        "Calls by status",
        "reqps",
        [("{{status}}", "sum by (status) (rate(leonidas_tool_calls_total[$__rate_interval]))")],
    ),
    (
        "Failures by tool",
        "percentunit",
        [
            (
                "{{tool}}",
                f"{_CALLS % _FAILED} / {_CALLS % ''}",
            )
        ],
    ),
    (
        "Duration",
        "s",
        [
            (
                f"{{{{tool}}}} p{percent}",
                f"histogram_quantile({percent / 100}, {_BUCKETS})",
            )
            for percent in (50, 95)
        ],
    ),
    ("Running calls", "short", [("running", "sum(leonidas_tool_calls_in_flight)")]),
    (
        "Retries and fallbacks",
        "ops",
        [
            (
                f"{{{{tool}}}} {kind}",
                f"sum by (tool) (rate(leonidas_tool_{kind}_total[$__rate_interval]))",
            )
            for kind in ("retries", "fallbacks")
        ],
    ),
    ("Circuit breakers: 1 is open", "short", [("{{tool}}", "leonidas_tool_breaker_open")]),
    ("Alerts of the settings: 1 fires", "short", [("{{alert}}", "leonidas_alert_firing")]),
]


def dashboard():
    """Return the dashboard, two panels a row."""
    panels = []
    for index, (title, unit, queries) in enumerate(PANELS):
        row, column = divmod(index, 2)
        panels.append(
            {
                "id": index + 1,
                "type": "timeseries",
                "title": title,
                "datasource": _SOURCE,
                "gridPos": {"h": _HEIGHT, "w": _WIDTH, "x": column * _WIDTH, "y": row * _HEIGHT},
                "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
                "options": {"legend": {"showLegend": True, "displayMode": "list"}},
                "targets": [
                    {"refId": chr(65 + n), "expr": query, "legendFormat": legend}
                    for n, (legend, query) in enumerate(queries)
                ],
            }
        )
    source = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    return {
        "title": "Leonidas Tools",
        "uid": "leonidas-tools",
        "tags": ["leonidas"],
        "schemaVersion": 39,
        "editable": True,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "10s",
        "templating": {"list": [source]},
        "panels": panels,
    }


def written():
    """Return the dashboard as the file has it."""
    return json.dumps(dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(written())
