"""Whatever the arguments: no call that is not the user's runs unasked after untrusted content."""

import asyncio
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from leonidas_tools import AdvancedToolProcessor, ToolSession, Transcript, tool

WORDS = (
    "Ana",
    "bob@example.org",
    "notes/a.txt",
    "all",
    "120",
    "7",
    "1,250.50",
    "it's",
    "the",
    "小明",
)
SIGNS = ("", "", "", ".", ",", "?", ";", "$", "'", "-", "/", "*", ">", "\0", "\u200b", "\n")
words = st.sampled_from(WORDS)
spoken = st.lists(st.lists(words, min_size=1, max_size=4).map(" ".join), max_size=3)
near = st.builds("".join, st.tuples(st.sampled_from(SIGNS), words, st.sampled_from(SIGNS)))
pieces = st.builds(lambda word, cut: word[cut:] or word[:cut], words, st.integers(-3, 3))
texts = st.lists(near | words | pieces, max_size=3).map(" ".join) | st.text(max_size=6)
numbers = st.sampled_from([0, 1, 7, -7, 12, 120, 1250.5, 25, 250]) | st.floats() | st.integers()
leaves = texts | numbers | st.booleans() | st.none()
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)


class Desk:
    """Tools with an effect; `done` has the arguments of the calls that ran."""

    def __init__(self) -> None:
        self.done: list[Any] = []

        @tool(effect="read", untrusted=True)
        async def read_page() -> str:
            return "Do as I say."

        @tool
        async def act(value: Any) -> None:
            self.done.append(value)

        self.tools = AdvancedToolProcessor(
            [read_page, act], {"policies": {"loop": "off"}}, builtin_tools=False
        )

    async def play(self, said: list[str], value: Any) -> bool:
        """Return whether the call runs unasked after the user has said this."""
        session = ToolSession(user="ana")
        for text in said:
            session.get(Transcript).user_typed(text)
        await self.tools.execute("read_page", session=session)
        before = len(self.done)
        await self.tools.execute("act", {"value": value}, session=session)
        return len(self.done) > before


def leaves_of(value: Any) -> list[Any]:
    if isinstance(value, dict) and value:
        return [each for pair in value.items() for part in pair for each in leaves_of(part)]
    if isinstance(value, list) and value:
        return [each for part in value for each in leaves_of(part)]
    return [value]


def is_said(leaf: Any, said: list[str]) -> bool:
    """Return whether any utterance has the leaf between spaces, signs of a sentence aside.

    It is judged in another way than by the library: by what stands around it in the text.
    """
    if isinstance(leaf, bool) or not isinstance(leaf, str | int | float):
        return False
    if isinstance(leaf, str) and not re.fullmatch(r"[0-9.]+", leaf.strip()):
        parts = [re.escape(part.rstrip(".,")) for part in leaf.casefold().split()]
        pattern = r"\W*\s+\W*".join(parts)
        return (
            bool(parts)
            and all(parts)
            and any(
                re.search(rf"(?:^|\s)\W*{pattern}(?:'s)?\W*(?:\s|$)", text.casefold())
                or ("小明" in text and leaf.replace(" ", "").rstrip(".,") in text)
                for text in said
            )
        )
    wanted = {"120": 120.0, "7": 7.0, "1,250.50": 1250.5}
    return any(float(leaf) == wanted.get(word) for text in said for word in text.split())


def test_no_call_that_is_not_the_users_runs_unasked() -> None:
    @settings(max_examples=4 * settings().max_examples, derandomize=True, deadline=None)
    @given(said=spoken, value=values)
    def check(said: list[str], value: Any) -> None:
        if runner.run(desk.play(said, value)):
            assert all(is_said(leaf, said) for leaf in leaves_of(value))

    desk = Desk()
    with asyncio.Runner() as runner:
        check()


def test_what_the_user_has_said_in_one_breath_runs_unasked() -> None:
    @settings(max_examples=100, derandomize=True, deadline=None)
    @given(st.lists(words, max_size=3), st.lists(words, max_size=3), st.lists(words, max_size=3))
    def check(before: list[str], chosen: list[str], after: list[str]) -> None:
        chosen = [*chosen, "Ana"]  # numbers and common words alone ask
        said = " ".join([*before, *chosen, *after])
        assert runner.run(desk.play([said], " ".join(chosen)))

    desk = Desk()
    with asyncio.Runner() as runner:
        check()
