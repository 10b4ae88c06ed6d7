"""The store: calls, approvals, preferences, and what tools keep for users, in a database."""

from leonidas_tools.session.tasks import Task, TaskStatus
from leonidas_tools.store.address import default_file
from leonidas_tools.store.durable import DurableStart
from leonidas_tools.store.rows import (
    Approval,
    Decision,
    Execution,
    KeptResult,
    Preferences,
    ReplayEvent,
    SessionSummary,
    SpilledResult,
    Step,
    StoreStatus,
)
from leonidas_tools.store.store import Store

__all__ = [
    "Approval",
    "Decision",
    "DurableStart",
    "Execution",
    "KeptResult",
    "Preferences",
    "ReplayEvent",
    "SessionSummary",
    "SpilledResult",
    "Step",
    "Store",
    "StoreStatus",
    "Task",
    "TaskStatus",
    "default_file",
]
