"""Preferences, approvals, tasks and long results."""

import asyncio
import secrets
import time

import pytest

from leonidas_tools.errors import StaleVersionError, StoreError
from leonidas_tools.settings.store_settings import StoreSettings
from leonidas_tools.store import Preferences, Store, Task, TaskStatus

from .conftest import insert_question, write_now

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


async def test_pending_approvals_can_be_of_one_session_or_user(store, tell):
    first = await insert_question(store, tell(store).call("delete", path="/tmp/x"))
    second = await insert_question(store, tell(store, "hall").call(), user="ana")
    await insert_question(store, tell(store).call(), expires=time.time() - 1)
    pending = await store.approvals.pending()
    assert [(each.id, each.session, each.user) for each in pending] == [
        (first, "kitchen", "local"),
        (second, "hall", "ana"),
    ]
    assert (pending[0].tool, pending[0].arguments) == ("delete", {"path": "/tmp/x"})
    assert await store.approvals.pending(session="hall") == [pending[1]]
    assert await store.approvals.pending(user="nobody") == []


async def test_a_task_list_is_written_and_read(store):
    plan = [
        Task(id="b", title="Look", calls=("kitchen-1",)),
        Task(id="a", title="Book", status=TaskStatus.IN_PROGRESS, tools=("t",), done=("t",)),
    ]
    assert await store.tasks.read("kitchen") == []
    await write_now(store, store.tasks.writing("kitchen", plan, user=None))
    other = [Task(id="a", title="Other")]
    await write_now(store, store.tasks.writing("hall", other, user=None))
    assert await store.tasks.read("kitchen") == plan
    assert await store.tasks.read("hall") == other
    with pytest.raises(StoreError):
        await write_now(store, store.tasks.writing("kitchen", [*other, *other], user=None))
    assert await store.tasks.read("kitchen") == plan
    await write_now(store, store.tasks.writing("kitchen", [], user=None))
    assert await store.tasks.read("kitchen") == []


async def put_result(store, content, session="kitchen"):
    handle = secrets.token_urlsafe(12)
    write = store.results.putting(
        handle, content, mime_type="application/octet-stream", session=session, user="local"
    )
    await write_now(store, write)
    return handle


async def read_result(store, handle, session="kitchen", **more):
    return await store.results.read(handle, session=session, user="local", **more)


async def test_a_long_result_is_read_piece_by_piece(store):
    content = bytes(range(256)) * 8192
    handle = await put_result(store, content)
    whole = await read_result(store, handle)
    assert (whole.content, whole.size) == (content, len(content))
    assert whole.mime_type == "application/octet-stream"
    piece = await read_result(store, handle, offset=255, limit=3)
    assert (piece.content, piece.offset, piece.size) == (b"\xff\x00\x01", 255, len(content))
    assert (await read_result(store, handle, offset=len(content))).content == b""


async def test_a_result_belongs_to_its_session_and_user(store):
    handle = await put_result(store, b"1")
    assert (await read_result(store, handle)).content == b"1"
    for other in (None, "hall"):
        with pytest.raises(StoreError, match="has expired: make the call again"):
            await read_result(store, handle, session=other)
    with pytest.raises(StoreError):
        await store.results.read(handle, session="kitchen", user="ana")


async def test_a_result_expires(where):
    async with Store(StoreSettings(url=where, keep_results_for=0.001)) as store:
        handle = await put_result(store, b"1")
        while await store.results.find():
            await asyncio.sleep(0)
        with pytest.raises(StoreError):
            await read_result(store, handle)
        assert await store.prune() == 1


NO_HANDLES = ["", "../../etc/passwd", "%", "' OR 1=1 --", "\ud800", "a\0", "x" * 100_000]


@pytest.mark.parametrize("made_up", NO_HANDLES, ids=range(len(NO_HANDLES)))
async def test_a_made_up_handle_or_offset_reads_no_result(store, made_up):
    handle = await put_result(store, b"secret")
    for wrong in (made_up, handle + made_up if made_up else handle[:-1]):
        with pytest.raises(StoreError, match="There is no result"):
            await read_result(store, wrong)
    with pytest.raises(StoreError, match="There is no result"):
        await read_result(store, handle, session="hall")
    for offset in (6, 2**31, 2**63, 2**70):
        piece = await read_result(store, handle, offset=offset, session="kitchen")
        assert piece.content == b""


async def test_a_question_that_can_still_be_answered_is_not_pruned(where, told):
    call, now = told.call(), time.time()
    async with Store(StoreSettings(url=str(where), keep_for=0.001)) as store:
        open_ = await insert_question(store, call)
        in_time = await insert_question(store, call, expires=now + 600)
        await insert_question(store, call, expires=now - 1)
        await insert_question(store, call, decision="denied", requested=now - 1)
        assert await store.prune() == 2
        assert [each.id for each in await store.approvals.pending()] == [open_, in_time]
