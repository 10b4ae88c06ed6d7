"""What waits is bounded, keeps its order, and loses no end of a call that has begun."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leonidas_tools.store.outbox import CallLane, Entry, Lane

TEXTS = st.text(max_size=300).map(lambda text: text * 8)


class WaitingCalls(RuleBasedStateMachine):
    """Calls begin and end in any order, while a writer takes, fails, takes again and writes."""

    @initialize(calls=st.integers(1, 6), size=st.integers(0, 30_000))
    def begin_empty(self, calls, size):
        self.most_calls, self.most_bytes = calls, size
        self.backlog = CallLane(max_entries=calls, max_bytes=size)
        self.number = 0
        self.begun = []  # ids in the order in which they were taken
        self.open = []
        self.ends = {}
        self.written_rows = []
        self.rows = {}
        self.refused = 0
        self.taken = []

    @rule(text=TEXTS)
    def begin(self, text):
        self.number += 1
        row = {"id": str(self.number), "arguments": text, "status": "started"}
        if self.backlog.begin(("call", self.number), row):
            self.begun.append(str(self.number))
            self.open.append(self.number)

    @rule(text=TEXTS)
    def end_without_a_start(self, text):
        self.number += 1
        row = {"id": str(self.number), "arguments": "", "status": "ok", "result": text}
        dropped = self.backlog.dropped
        self.backlog.add(row)
        if self.backlog.dropped == dropped:
            self.begun.append(str(self.number))
            self.ends[str(self.number)] = text
        else:
            self.refused += 1

    @precondition(lambda self: self.open)
    @rule(data=st.data(), text=TEXTS)
    def end(self, data, text):
        number = data.draw(st.sampled_from(self.open))
        self.open.remove(number)
        assert self.backlog.end(("call", number), {"status": "ok", "result": text})
        self.ends[str(number)] = text

    @rule(most=st.integers(1, 4))
    def take(self, most):
        taken = self.backlog.take(most)
        assert taken[: len(self.taken)] == self.taken
        self.taken = taken

    @rule()
    def write(self):
        for entry in self.taken:
            if entry.row is not None:
                assert entry.key not in self.rows, "a row is written once"
                self.rows[entry.key] = dict(entry.row)
                self.written_rows.append(entry.key)
            else:
                assert entry.key in self.rows, "an end comes after its start"
                self.rows[entry.key] |= entry.ending
        self.backlog.done(self.taken, is_written=True)
        self.taken = []

    @invariant()
    def bounds_hold(self):
        assert 0 <= self.backlog.entries <= self.most_calls
        assert 0 <= self.backlog.size <= max(self.most_bytes, 0)
        assert len(self.backlog) <= self.backlog.entries
        assert self.backlog.dropped == self.refused
        assert self.backlog.open_calls == len(self.open)

    @invariant()
    def starts_are_written_in_their_order(self):
        assert self.written_rows == self.begun[: len(self.written_rows)]

    def teardown(self):
        """Everything that was taken is written in the end, with the end that it had."""
        if not hasattr(self, "backlog"):
            return
        while len(self.backlog):
            self.take(4)
            self.write()
        assert list(self.rows) == self.begun
        for id_, row in self.rows.items():
            assert row["status"] == ("ok" if id_ in self.ends else "started")
            assert row.get("result") in (None, self.ends.get(id_))
        lost = sum(
            row["status"] == "ok" and row.get("result") is None for row in self.rows.values()
        )
        assert lost == self.backlog.cut
        if not self.open:
            assert (self.backlog.entries, self.backlog.size) == (0, 0)


TestWaitingCalls = WaitingCalls.TestCase


def test_an_unknown_end_is_refused():
    assert not CallLane(max_entries=1, max_bytes=1).end("nobody", {"status": "ok"})


@given(st.integers(0, 3000))
def test_a_result_is_left_out_where_there_is_no_room_for_it(length):
    backlog = CallLane(max_entries=1, max_bytes=3000)
    backlog.begin("call", {"id": "1", "arguments": ""})
    room = 3000 - backlog.size
    backlog.end("call", {"status": "ok", "result": "x" * length})
    (entry,) = backlog.take(1)
    assert entry.row["result"] == ("x" * length if length <= room else None)
    assert backlog.cut == (length > room)


@pytest.mark.parametrize("text", ["x", "é", "密"])
def test_a_text_counts_with_what_it_takes_at_most(text):
    backlog = CallLane(max_entries=1, max_bytes=100_000)
    backlog.add({"id": "1", "arguments": ""})
    empty = backlog.size
    other = CallLane(max_entries=1, max_bytes=100_000)
    other.add({"id": "1", "arguments": text * 10})
    assert other.size - empty >= len((text * 10).encode())


def test_a_new_write_replaces_one_that_waits():
    lane = Lane("record", max_entries=2, max_bytes=10)
    assert lane.put(Entry("tasks"), 6)
    assert lane.put(Entry("answer"), 4)
    assert not lane.put(Entry("other"), 0)
    assert not lane.put(Entry("tasks"), 7)
    assert lane.put(newer := Entry("tasks"), 5)
    assert (lane.take()[0], lane.size, lane.entries) == (newer, 9, 2)


def test_a_write_stays_taken_until_it_is_done():
    lane = Lane("record", max_entries=3, max_bytes=10)
    first, newer = Entry("tasks"), Entry("tasks")
    lane.put(first, 1)
    assert lane.take() == [first]
    lane.put(newer, 1)
    assert lane.take() == [first, newer]  # the first one failed, and comes first again
    lane.done([first], is_written=True)
    lane.done([newer], is_written=False)
    assert (lane.written, lane.refused, len(lane), lane.size) == (1, 1, 0, 0)


def test_a_drop_is_logged_once_until_all_is_written(caplog):
    lane = Lane("record", max_entries=0, max_bytes=0)
    lane.drop()
    lane.drop()
    assert caplog.messages == ["Some records are not stored: the store is too slow for them"]
    lane.done([], is_written=True)
    lane.drop()
    assert (len(caplog.messages), lane.dropped) == (2, 3)
