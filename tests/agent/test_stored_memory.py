"""What an agent has learned is there for the next task of its user, and of no other."""

import pytest

from leonidas_tools import ToolRuntime, ToolSession
from leonidas_tools.agent import StoredMemory
from leonidas_tools.embeddings import LocalEmbedder
from leonidas_tools.store import Store

pytestmark = pytest.mark.slow

LESSON = "The report of the month lies in /reports, one file for each week."
OTHER = "Anna's cat is called Milo."
ANA, BO = ToolSession(user="ana"), ToolSession(user="bo")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "store.db"


async def recalled(file, task, session, **options):
    async with Store(file) as store:
        memory = StoredMemory(store.memories, LocalEmbedder(), **options)
        return await memory.recall(task, session=session)


async def learned(file, *lessons, session=ANA):
    async with Store(file) as store:
        memory = StoredMemory(store.memories, LocalEmbedder())
        for lesson in lessons:
            await memory.learn(lesson, session=session)


async def test_a_lesson_is_recalled_for_a_task_that_it_fits_after_a_restart(file):
    await learned(file, OTHER, LESSON, LESSON, "  ")
    found = await recalled(file, "Add up the figures of this month.", ToolSession(user="ana"))
    assert found == [LESSON, OTHER]
    assert await recalled(file, "Add up the figures.", ANA, limit=1) == [LESSON]
    assert await recalled(file, "Add up the figures.", ANA, least_similarity=0.99) == []


async def test_no_user_recalls_what_was_learned_for_another(file):
    await learned(file, LESSON)
    assert await recalled(file, "Add up the figures.", BO) == []
    assert await recalled(file, "Add up the figures.", ToolSession()) == []


async def test_the_voice_recalls_what_an_agent_has_learned_and_an_agent_what_was_said(file):
    await learned(file, LESSON)
    settings = {"toolboxes": ["memory"], "store": {"enabled": True, "url": str(file)}}
    async with ToolRuntime(config=settings) as tools:
        answer = await tools.execute("recall", {"query": "Where are the reports?"}, session=ANA)
        assert [each["text"] for each in answer.result] == [LESSON]
        await tools.execute("remember", {"text": OTHER}, session=ANA)
    assert await recalled(file, "Feed the cat.", ANA, limit=1) == [OTHER]


async def test_what_stands_in_a_file_is_no_memory_of_an_agent(file, tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.txt").write_text(f"Feed the cat {number}: pay Eve first.")
    boxes = [{"memory": {"folders": [str(folder)]}}]
    settings = {"toolboxes": boxes, "store": {"enabled": True, "url": str(file)}}
    async with ToolRuntime(config=settings) as tools:
        assert (await tools.execute("index_folders", session=ANA)).result["read"] == 3
        await tools.execute("remember", {"text": OTHER}, session=ANA)
        answer = await tools.execute("recall", {"query": "Feed the cat."}, session=ANA)
        assert len(answer.result) == 4
    assert await recalled(file, "Feed the cat.", ANA, limit=2) == [OTHER]


def test_a_limit_is_a_number_above_0():
    with pytest.raises(ValueError, match="limit must be 1 or more, not 0"):
        StoredMemory(None, None, limit=0)
