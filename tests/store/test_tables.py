"""Preferences, approvals, tasks and long results."""

import asyncio
import json

import pytest

from leonidas_tools.errors import StaleVersionError, StoreError
from leonidas_tools.redaction import MASK
from leonidas_tools.settings.store_settings import StoreSettings
from leonidas_tools.store import Decision, Preferences, Store, Task, TaskStatus

pytestmark = pytest.mark.slow


async def test_preferences_begin_empty_and_can_be_anything(store):
    assert await store.preferences.read("ana") == Preferences(user="ana")
    written = await store.preferences.write("ana", {"voice": "Kore", "nested": {"é": [1, None]}})
    assert (written.version, written.values) == (1, {"voice": "Kore", "nested": {"é": [1, None]}})
    assert await store.preferences.read("ana") == written
    assert await store.preferences.read("rui") == Preferences(user="rui")


async def test_a_patch_changes_parts_and_takes_away(store):
    await store.preferences.write("ana", {"a": {"b": 1, "c": 2}, "d": 3})
    patched = await store.preferences.patch("ana", {"a": {"b": None, "e": {"f": 4}}, "d": [5]})
    assert (patched.version, patched.values) == (2, {"a": {"c": 2, "e": {"f": 4}}, "d": [5]})
    assert await store.preferences.read("ana") == patched


async def test_a_change_of_what_has_changed_meanwhile_is_refused(store):
    first = await store.preferences.write("ana", {"a": 1}, version=0)
    await store.preferences.patch("ana", {"a": 2}, version=first.version)
    with pytest.raises(StaleVersionError, match="version 2, not 1: read them again") as caught:
        await store.preferences.write("ana", {"a": 3}, version=first.version)
    assert caught.value.current == 2
    with pytest.raises(StaleVersionError):
        await store.preferences.patch("ana", {"a": 3}, version=0)
    assert (await store.preferences.read("ana")).values == {"a": 2}


async def test_patches_at_the_same_time_all_count(store):
    await asyncio.gather(*(store.preferences.patch("ana", {str(n): n}) for n in range(20)))
    kept = await store.preferences.read("ana")
    assert (kept.version, len(kept.values)) == (20, 20)


async def test_two_stores_patch_the_same_preferences(where):
    async with Store(where) as one, Store(where) as other:
        await one.preferences.write("ana", {})
        await asyncio.gather(
            *(one.preferences.patch("ana", {f"one{n}": n}) for n in range(10)),
            *(other.preferences.patch("ana", {f"other{n}": n}) for n in range(10)),
        )
        kept = await one.preferences.read("ana")
    assert (kept.version, len(kept.values)) == (21, 20)


async def test_preferences_that_are_too_long_are_refused(store):
    with pytest.raises(ValueError, match="longer than 262144 bytes"):
        await store.preferences.write("ana", {"a": "x" * 300_000})


async def test_an_approval_is_asked_for_and_given(store, told):
    call = told.call("delete", path="/tmp/x", token="abc")
    asked = await store.approvals.ask(call, message="Delete /tmp/x?", fingerprint="f1")
    assert (asked.tool, asked.session, asked.user, asked.trace_id, asked.call_id) == (
        "delete",
        "kitchen",
        "local",
        "kitchen-1",
        "id-1",
    )
    assert asked.arguments == {"path": "/tmp/x", "token": MASK}
    assert (asked.message, asked.fingerprint, asked.decision) == ("Delete /tmp/x?", "f1", None)
    assert await store.approvals.pending() == [asked]
    given = await store.approvals.decide(asked.id, Decision.APPROVED, by="ana", note="go on")
    assert (given.decision, given.decided_by, given.note) == (Decision.APPROVED, "ana", "go on")
    assert given.decided >= asked.requested
    assert await store.approvals.pending() == []
    assert await store.approvals.get(asked.id) == given


async def test_only_the_first_answer_counts(store, told):
    asked = await store.approvals.ask(told.call())
    answers = await asyncio.gather(
        *(
            store.approvals.decide(asked.id, decision, by=decision)
            for decision in (Decision.DENIED, Decision.APPROVED, Decision.WITHDRAWN)
        )
    )
    assert len({answer.decision for answer in answers}) == 1
    assert answers[0] == answers[1] == answers[2] == await store.approvals.get(asked.id)


async def test_an_answer_that_comes_too_late_does_not_count(store, told):
    asked = await store.approvals.ask(told.call(), expires_in_seconds=-1)
    assert await store.approvals.pending() == []
    late = await store.approvals.decide(asked.id, Decision.APPROVED, by="ana")
    assert (late.decision, late.decided_by) == (Decision.EXPIRED, None)


async def test_pending_approvals_can_be_of_one_session_or_user(store, tell):
    kitchen, hall = tell(store), tell(store, "hall")
    first = await store.approvals.ask(kitchen.call())
    second = await store.approvals.ask(hall.call())
    assert await store.approvals.pending() == [first, second]
    assert await store.approvals.pending(session="hall") == [second]
    assert await store.approvals.pending(user="nobody") == []


async def test_an_unknown_approval_is_an_error(store):
    with pytest.raises(StoreError, match="no approval 'x'"):
        await store.approvals.get("x")
    with pytest.raises(StoreError, match="no approval 'x'"):
        await store.approvals.decide("x", Decision.APPROVED)


async def test_tasks_are_written_read_and_changed(store):
    plan = [Task(id="b", title="Look"), Task(id="a", title="Book", status=TaskStatus.IN_PROGRESS)]
    assert await store.tasks.read("kitchen") == []
    await store.tasks.write("kitchen", plan)
    await store.tasks.write("hall", [Task(id="a", title="Other")])
    assert await store.tasks.read("kitchen") == plan
    await store.tasks.change("kitchen", "a", call="kitchen-1")
    await store.tasks.change("kitchen", "a", call="kitchen-1")
    changed = await store.tasks.change(
        "kitchen", "a", status=TaskStatus.COMPLETED, title="Booked", call="kitchen-2"
    )
    assert changed == [
        plan[0],
        Task(id="a", title="Booked", status=TaskStatus.COMPLETED, calls=("kitchen-1", "kitchen-2")),
    ]
    assert await store.tasks.read("hall") == [Task(id="a", title="Other")]
    await store.tasks.write("kitchen", [])
    assert await store.tasks.read("kitchen") == []
    assert changed[1].to_json()["status"] == "completed"


async def test_an_unknown_task_is_an_error_with_those_there_are(store):
    await store.tasks.write("kitchen", [Task(id="a", title="Book")])
    with pytest.raises(StoreError, match="no task 'b' in 'kitchen'; known tasks: 'a'"):
        await store.tasks.change("kitchen", "b", status=TaskStatus.FAILED)


async def test_two_tasks_of_one_id_are_refused_and_the_list_stays(store):
    plan = [Task(id="a", title="Book")]
    await store.tasks.write("kitchen", plan)
    with pytest.raises(StoreError):
        await store.tasks.write("kitchen", [*plan, *plan])
    assert await store.tasks.read("kitchen") == plan


async def test_a_long_result_is_read_piece_by_piece(store):
    content = bytes(range(256)) * 8192
    handle = await store.results.put(content, mime_type="application/octet-stream")
    whole = await store.results.read(handle)
    assert (whole.content, whole.size) == (content, len(content))
    assert whole.mime_type == "application/octet-stream"
    piece = await store.results.read(handle, offset=255, limit=3)
    assert (piece.content, piece.offset, piece.size) == (b"\xff\x00\x01", 255, len(content))
    assert (await store.results.read(handle, offset=len(content))).content == b""
    await store.results.remove(handle)
    with pytest.raises(StoreError, match="has expired: make the call again"):
        await store.results.read(handle)


async def test_a_result_belongs_to_its_session_and_expires(store):
    handle = await store.results.put(b"1", session="kitchen")
    assert (await store.results.read(handle, session="kitchen")).content == b"1"
    for other in (None, "hall"):
        with pytest.raises(StoreError):
            await store.results.read(handle, session=other)
    expired = await store.results.put(b"1", expires_in_seconds=-1)
    with pytest.raises(StoreError):
        await store.results.read(expired)
    assert await store.prune() == 1
    assert (await store.results.read(handle, session="kitchen")).content == b"1"


NO_HANDLES = ["", "../../etc/passwd", "%", "' OR 1=1 --", "\ud800", "a\0", "x" * 100_000]


@pytest.mark.parametrize("made_up", NO_HANDLES, ids=range(len(NO_HANDLES)))
async def test_a_made_up_handle_or_offset_reads_no_result(store, made_up):
    handle = await store.results.put(b"secret", session="kitchen")
    for wrong in (made_up, handle + made_up if made_up else handle[:-1]):
        with pytest.raises(StoreError, match="There is no result"):
            await store.results.read(wrong, session="kitchen")
    with pytest.raises(StoreError, match="There is no result"):
        await store.results.read(handle, session="hall")
    for offset in (6, 2**31, 2**63, 2**70):
        piece = await store.results.read(handle, offset=offset, session="kitchen")
        assert piece.content == b""


async def test_a_question_that_can_still_be_answered_is_not_pruned(where, told):
    call = told.call()
    async with Store(StoreSettings(url=str(where), keep_for=0.001)) as store:
        open_ = await store.approvals.ask(call)
        in_time = await store.approvals.ask(call, expires_in_seconds=600)
        await store.approvals.ask(call, expires_in_seconds=-1)
        answered = await store.approvals.ask(call)
        await store.approvals.decide(answered.id, Decision.DENIED)
        assert await store.prune() == 2
        assert [each.id for each in await store.approvals.pending()] == [open_.id, in_time.id]
        given = await store.approvals.decide(open_.id, Decision.APPROVED)
        assert given.decision is Decision.APPROVED
        assert await store.prune() == 1


async def test_the_tools_of_a_task_are_kept(tmp_path):
    from leonidas_tools.store.tasks import _packed, _unpacked

    plain, named = Task(id="1", title="a", calls=("x",)), Task(id="2", title="b", tools=("t",))
    assert _packed(plain) == '["x"]'
    for task in (plain, named):
        kept = _unpacked(json.loads(_packed(task)))
        assert kept == {"calls": task.calls, "tools": task.tools, "done": task.done}
