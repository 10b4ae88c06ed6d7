"""Sinks of events, one file each, and the monitor that combines them."""

from leonidas_tools.monitoring.alerts import Alert
from leonidas_tools.monitoring.monitor import Monitor
from leonidas_tools.monitoring.vitals import Vitals

__all__ = ["Alert", "Monitor", "Vitals"]
