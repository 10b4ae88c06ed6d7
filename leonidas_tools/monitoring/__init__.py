"""Monitoring: metrics, history, alerts, health and the event stream."""

from leonidas_tools.monitoring.alerts import Alert
from leonidas_tools.monitoring.health import Vitals
from leonidas_tools.monitoring.monitor import Monitor

__all__ = ["Alert", "Monitor", "Vitals"]
