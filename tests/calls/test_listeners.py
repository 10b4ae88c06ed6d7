"""Listeners to changes of what a session and a registry have."""

import pytest

from leonidas_tools import ToolRegistry
from leonidas_tools.approvals.session_policy import SessionPolicy
from leonidas_tools.session.tasks import TaskList


def test_a_listener_that_subscribed_twice_and_unsubscribed_once_is_called_once():
    registry, heard = ToolRegistry(), []

    def listener():
        heard.append("changed")

    registry.on_change(listener)
    unsubscribe = registry.on_change(listener)
    unsubscribe()
    unsubscribe()
    registry.register(len, name="length", description="Counts.")
    assert heard == ["changed"]


@pytest.mark.parametrize(
    ("subject", "change"),
    [
        (SessionPolicy(), lambda policy: setattr(policy, "mode", "read_only")),
        (TaskList(), lambda tasks: tasks.write(["Find a flight"])),
    ],
)
def test_a_listener_that_fails_stops_neither_the_change_nor_other_listeners(
    subject, change, caplog
):
    heard = []

    def fail(*_):
        raise RuntimeError("hunter2")

    subject.on_change(fail)
    subject.on_change(lambda *_: heard.append("changed"))
    change(subject)
    assert heard == ["changed"]
    assert "A listener for" in caplog.text
