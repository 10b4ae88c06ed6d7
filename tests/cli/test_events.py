import json

from leonidas_tools.cli import events
from leonidas_tools.monitoring.event_stream import events_schema


def test_the_schema_of_the_events_is_printed(invoke):
    for arguments in (["schema"], ["schema", "--json"]):
        finished = invoke(events.commands(), *arguments)
        assert finished.exit_code == 0
        assert json.loads(finished.stdout) == events_schema()
