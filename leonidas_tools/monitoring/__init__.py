"""What happened to the calls: sinks, one file each, and the monitor that combines them."""

from leonidas_tools.monitoring.alerts import Alert
from leonidas_tools.monitoring.health import Vitals
from leonidas_tools.monitoring.monitor import Monitor

__all__ = ["Alert", "Monitor", "Vitals"]
