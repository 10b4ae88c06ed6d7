"""Memories are found by their meaning, kept over restarts, and seen by their user alone."""

import asyncio
import os
import shutil
import time

import pytest

from leonidas_tools import ToolRuntime, ToolSession
from leonidas_tools.approvals.desk import Approvals
from leonidas_tools.approvals.request import Decision


@pytest.fixture
def runtime(where):
    def made(toolbox="memory", **more):
        store = {"enabled": True, "url": where}
        return ToolRuntime(config={"toolboxes": [toolbox], "store": store, **more})

    return made


async def said(tools, session, name, **arguments):
    return (await tools.execute(name, arguments, session=session)).to_response()


async def test_what_is_remembered_is_recalled_by_its_meaning_after_a_restart(runtime):
    ana = ToolSession("kitchen", user="ana")
    async with runtime() as tools:
        for text in (
            "Ana is allergic to peanuts.",
            "The router password is on the fridge.",
            "Her brother Tom lives in Oslo.",
        ):
            kept = await said(tools, ana, "remember", text=text)
            assert kept["speech"] == "I will remember that."
        again = await said(tools, ana, "remember", text="Ana is allergic to peanuts.")
        assert again["status"] == "ok"
    ana = ToolSession("car", user="ana")
    async with runtime() as tools:
        found = await said(tools, ana, "recall", query="Which food must she not eat?")
        texts = [each["text"] for each in found["result"]]
        assert texts[0] == "Ana is allergic to peanuts."
        assert len(texts) == 3
        found = await said(tools, ana, "recall", query="Which relatives live abroad?", limit=1)
        assert [each["text"] for each in found["result"]] == ["Her brother Tom lives in Oslo."]


async def test_no_user_sees_or_forgets_a_memory_of_another(runtime):
    ana, bo, none = ToolSession(user="ana"), ToolSession(user="bo"), ToolSession()
    local = ToolSession(user="local")
    async with runtime() as tools:
        kept = await said(tools, ana, "remember", text="The PIN of the safe is 4711.")
        await said(tools, none, "remember", text="The garage is open.")
        for other in (bo, local):
            assert (await said(tools, other, "recall", query="PIN"))["status"] == "no_results"
        found = await said(tools, none, "recall", query="PIN of the safe")
        assert [each["text"] for each in found["result"]] == ["The garage is open."]
        gone = await decided(tools, bo, kept["result"]["id"])
        assert gone.status == "not_found"
        assert (await said(tools, ana, "recall", query="PIN"))["status"] == "ok"


async def test_what_is_forgotten_is_not_recalled(runtime):
    ana = ToolSession(user="ana")
    async with runtime() as tools:
        kept = await said(tools, ana, "remember", text="Ana likes jazz.")
        await said(tools, ana, "remember", text="Ana plays chess.")
        assert len((await said(tools, ana, "recall", query="music"))["result"]) == 2
        gone = await decided(tools, ana, kept["result"]["id"])
        assert gone.speech == "I have forgotten that."
        found = await said(tools, ana, "recall", query="music")
        assert [each["text"] for each in found["result"]] == ["Ana plays chess."]


async def test_a_memory_without_text_or_without_end_is_refused(runtime):
    ana = ToolSession(user="ana")
    async with runtime({"memory": {"max_characters": 10}}) as tools:
        blank = await said(tools, ana, "remember", text=" \0 ")
        assert (blank["status"], blank["reason_code"]) == ("invalid_argument", "blank_memory")
        long = await said(tools, ana, "remember", text="a" * 11)
        assert (long["status"], long["reason_code"]) == ("invalid_argument", "too_long_memory")


async def test_without_a_store_the_model_hears_that_nothing_can_be_remembered():
    async with ToolRuntime(config={"toolboxes": ["memory"]}) as tools:
        answer = await said(tools, ToolSession(user="ana"), "remember", text="Ana likes jazz.")
        assert (answer["status"], answer["reason_code"]) == ("unavailable", "no_store")


async def decided(tools, session, memory_id):
    """Return the result of `forget` after the user's yes."""
    answered = asyncio.get_running_loop().create_future()
    desk = session.get(Approvals)
    stop = desk.on_result(lambda _, result: answered.set_result(result))
    pending = await tools.execute("forget", {"memory_id": memory_id}, session=session)
    assert pending.status == "pending_approval"
    desk.decide(desk.pending()[0].id, Decision.approve())
    try:
        return await answered
    finally:
        stop()


# Folders.


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "notes"
    (made / "garden").mkdir(parents=True)
    (made / "garden" / "roses.md").write_text("Roses are cut in March.\n\nThey like clay.")
    (made / "bread.txt").write_text("The sourdough needs 12 hours to rise.")
    return made


async def indexed(tools, session):
    return (await said(tools, session, "index_folders"))["result"]


def with_folders(*folders):
    return {"memory": {"folders": [str(each) for each in folders]}}


@pytest.mark.slow
async def test_the_files_of_a_folder_are_recalled_with_the_file_they_stand_in(runtime, folder):
    ana = ToolSession(user="ana")
    async with runtime(with_folders(folder)) as tools:
        answer = await said(tools, ana, "index_folders")
        assert answer["result"] == {"read": 2, "unchanged": 0, "left_out": 0, "gone": 0}
        assert answer["speech"] == "I have read 2 files that were new or changed."
        found = await said(tools, ana, "recall", query="When do I cut the flowers?", limit=1)
    (first,) = found["result"]
    assert first["source"] == f"{folder}/garden/roses.md"
    assert "Roses are cut in March." in first["text"]


@pytest.mark.slow
async def test_only_what_has_changed_is_read_again_and_what_is_gone_is_forgotten(runtime, folder):
    ana = ToolSession(user="ana")
    async with runtime(with_folders(folder)) as tools:
        await indexed(tools, ana)
        assert (await indexed(tools, ana))["unchanged"] == 2
        bread = folder / "bread.txt"
        bread.write_text("The sourdough needs 20 hours to rise.")
        later = time.time() + 60
        os.utime(bread, (later, later))
        (folder / "garden" / "roses.md").unlink()
        assert await indexed(tools, ana) == {"read": 1, "unchanged": 0, "left_out": 0, "gone": 1}
        found = await said(tools, ana, "recall", query="bread and roses", limit=9)
    (left,) = found["result"]
    assert "20 hours" in left["text"]


@pytest.mark.slow
async def test_a_file_that_has_not_changed_is_not_opened(runtime, folder):
    ana = ToolSession(user="ana")
    async with runtime(with_folders(folder)) as tools:
        await indexed(tools, ana)
        before = (folder / "bread.txt").stat()
        (folder / "bread.txt").write_text("Nobody reads this.")
        os.utime(folder / "bread.txt", ns=(before.st_atime_ns, before.st_mtime_ns))
        assert (await indexed(tools, ana))["unchanged"] == 2


@pytest.mark.slow
async def test_what_a_user_has_indexed_no_other_recalls(runtime, folder):
    async with runtime(with_folders(folder)) as tools:
        await indexed(tools, ToolSession(user="ana"))
        other = await said(tools, ToolSession(user="bo"), "recall", query="roses")
        assert other["status"] == "no_results"
        assert (await indexed(tools, ToolSession(user="bo")))["read"] == 2


async def test_no_link_no_hidden_file_no_fifo_and_nothing_binary_or_huge_is_read(runtime, folder):
    outside = folder.parent / "secret.txt"
    outside.write_text("The PIN is 4711.")
    (folder / "link.txt").symlink_to(outside)
    (folder / "linked").symlink_to(folder.parent, target_is_directory=True)
    (folder / ".env").write_text("PIN=4711")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("PIN=4711")
    os.mkfifo(folder / "fifo")
    (folder / "picture.png").write_bytes(b"\x89PNG\0\xff")
    (folder / "huge.txt").write_text("PIN 4711 " * 100_000)
    ana = ToolSession(user="ana")
    async with runtime(with_folders(folder)) as tools:
        assert await indexed(tools, ana) == {"read": 2, "unchanged": 0, "left_out": 2, "gone": 0}
        found = await said(tools, ana, "recall", query="PIN 4711", limit=50)
    assert "4711" not in str(found["result"])


async def test_a_folder_that_is_replaced_by_a_link_stays_what_it_was(runtime, folder):
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "pin.txt").write_text("The PIN is 4711.")
    ana = ToolSession(user="ana")
    async with runtime(with_folders(folder)) as tools:
        folder.rename(folder.parent / "old")
        folder.symlink_to(outside)
        assert (await indexed(tools, ana))["read"] == 2
        found = await said(tools, ana, "recall", query="PIN 4711", limit=50)
    assert "4711" not in str(found["result"])


@pytest.mark.slow
async def test_a_file_whose_name_is_no_text_does_not_keep_others_from_being_read(runtime, folder):
    (folder / os.fsdecode(b"a\xff.txt")).write_text("Tulips.")
    async with runtime(with_folders(folder)) as tools:
        counts = await indexed(tools, ToolSession(user="ana"))
    assert counts == {"read": 2, "unchanged": 0, "left_out": 1, "gone": 0}


@pytest.mark.slow
async def test_a_long_file_is_remembered_in_pieces(runtime, folder):
    words = " ".join(f"word{number:05}" for number in range(1000))
    (folder / "long.txt").write_text(f"{words}\n\n{'x' * 2500}")
    ana = ToolSession(user="ana")
    async with runtime(with_folders(folder)) as tools:
        await indexed(tools, ana)
        found = await said(tools, ana, "recall", query="word", limit=50)
    pieces = [each for each in found["result"] if each["source"].endswith("long.txt")]
    assert all(len(each["text"]) < 1100 + len(str(folder)) for each in pieces)
    assert sum(each["text"].count("x" * 500) for each in pieces) >= 3
    assert sum(each["text"].count("word") for each in pieces) == 1000


@pytest.mark.slow
async def test_a_folder_that_is_gone_is_named(runtime, folder):
    async with runtime(with_folders(folder)) as tools:
        shutil.rmtree(folder)
        answer = await said(tools, ToolSession(user="ana"), "index_folders")
    assert answer["reason_code"] == "folder_unreadable"
    assert str(folder) in answer["message"]


@pytest.mark.slow
async def test_without_folders_there_is_nothing_to_index(runtime):
    async with runtime() as tools:
        assert "index_folders" not in {each.name for each in tools.registry}
