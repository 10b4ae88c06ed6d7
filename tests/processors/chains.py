"""Chains and tools that the tests of the processors share."""

from leonidas_tools import (
    ActionToolProcessor,
    AdvancedToolProcessor,
    ConfigurationProcessor,
    MCPToolProcessor,
    MonitoringProcessor,
    PythonFunctionProcessor,
    SpeechControlProcessor,
    ToolRegistry,
    ToolRegistryProcessor,
    tool,
)
from tests.promises.faults.play import call

ADDED = {"status": "ok", "result": 3, "retryable": False}


@tool(effect="read")
async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@tool(category="data", effect="read")
async def look_up(key: str) -> str:
    """Looks a word up."""
    return key.upper()


def add_part(call_id="1", **more):
    return call("add", {"a": 1, "b": 2}, id=call_id, **more)


def registry_of(*tools):
    brought = [
        *PythonFunctionProcessor([add]).tools,
        *ActionToolProcessor().tools,
        *SpeechControlProcessor().tools,
        look_up,
        *tools,
    ]
    return ToolRegistry(brought)


def categories():
    return (
        ActionToolProcessor()
        // SpeechControlProcessor()
        // PythonFunctionProcessor()
        // MCPToolProcessor({})
    )


def hand_made(registry=None, config=None, monitoring=None):
    """The chain as DESIGN writes it."""
    return (
        ToolRegistryProcessor(registry_of() if registry is None else registry)
        + ConfigurationProcessor(config)
        + categories()
        + (monitoring or MonitoringProcessor())
    )


def envelopes(heard):
    """The one envelope of each call."""
    assert all(len(found) == 1 for found in heard.by_id.values()), heard.by_id
    return {call_id: found[0] for call_id, found in heard.by_id.items()}


def statuses(heard):
    return {call_id: envelope["status"] for call_id, envelope in envelopes(heard).items()}


def kinds(heard, call_id):
    return [event["event"] for event in heard.events if event["call_id"] == call_id]


def ready_made(*tools):
    """A chain of our making, and its monitor."""
    made = AdvancedToolProcessor(registry=registry_of(*tools))
    return made, made.monitor


def made_by_hand(*tools):
    monitoring = MonitoringProcessor()
    return hand_made(registry_of(*tools), monitoring=monitoring), monitoring.monitor
