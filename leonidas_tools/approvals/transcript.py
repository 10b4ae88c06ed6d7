"""The transcript of a session: the evidence for questions and their answers."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from leonidas_tools.approvals.spoken import has_question

if TYPE_CHECKING:
    from collections.abc import Callable

_REMEMBERED = 1000
_MAX_PARTS = 64
_MAX_CHARACTERS_IN_PARTS = 4_000
"""Maximum characters of a turn that is judged again after each of its parts."""
_MAX_CHARACTERS = 20_000
"""Maximum characters of one piece; more text begins another piece."""
_MAX_CHARACTERS_IN_ALL = 2_000_000
"""Maximum characters of all pieces; a text of a server may have 16 MiB."""
_SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？")  # noqa: RUF001 - of several scripts
_QUESTION_MARKS = frozenset("?？؟")  # noqa: RUF001 - of several scripts

Kind = Literal[
    "user", "typed", "model", "user_end", "model_end", "interrupted", "connection", "mark"
]


@dataclass(kw_only=True, slots=True)
class TranscriptPiece:
    """A piece of the conversation: transcribed speech, or an event such as the end of a turn."""

    number: int
    """Its position in the transcript, counted from 1."""
    kind: Kind
    texts: list[str] = field(default_factory=list, repr=False)
    """The transcribed speech, in the parts in which it arrived."""
    characters: int = 0
    """The total length of `texts`, in characters."""


@dataclass(kw_only=True, slots=True)
class Utterance:
    """One continuous utterance of the user."""

    text: str = field(repr=False)
    last: int
    """The position of its last piece."""
    over: bool = False
    """True if its transcription is known to have finished."""
    broken: bool = False
    """True if the connection was lost while the user spoke, so that words may be missing."""
    goes_on: bool = False
    """True if it continues an utterance that began earlier."""
    ambiguous: bool = False
    """True if it may answer a later statement of the model."""

    def hear(self, text: str, number: int) -> None:
        """Append a piece."""
        self.text += text
        self.last = number


@dataclass(kw_only=True, slots=True)
class Exchange:
    """The conversation since the model received a question."""

    model_spoke: bool = False
    model_words: bool = False
    """True if any of the model's speech was transcribed."""
    asked: bool = False
    """True if the model has asked the question, in a turn that it has finished."""
    speech: str = field(default="", repr=False)
    """The turn in which the model last asked the question."""
    meanwhile: list[Utterance] = field(default_factory=list)
    """User speech while the model was asking; it cannot answer the question."""
    answers: list[Utterance] = field(default_factory=list)
    """User speech since the question was last asked."""
    earlier: list[Utterance] = field(default_factory=list)
    """User speech before the question was asked."""
    forgotten: bool = False
    """True if the beginning has already been dropped from the transcript."""


class Transcript:
    """Records the speech of the user and the model in a session, and the ends of turns.

    `LiveToolSession` writes to it. Your own receive loop calls `user_said`, `model_spoke` and
    `turn_ended`.

    Example:
        >>> transcript = Transcript()
        >>> question = transcript.mark()
        >>> transcript.model_spoke("Shall I?")
        >>> transcript.turn_ended()
        >>> transcript.user_said("Yes,")
        >>> transcript.user_said(" do it.")
        >>> [said.text for said in transcript.exchange(question, "Shall I?".__eq__).answers]
        ['Yes, do it.']
    """

    def __init__(self) -> None:
        self._heard: deque[TranscriptPiece] = deque()
        self._characters = 0
        self._numbers = 0
        self._changed = asyncio.Event()
        self.user_is_heard = False
        """True if any speech of the user has been transcribed."""
        self.tells_end = False
        """True if the model marks the end of the user's transcription; some models never do."""

    def user_said(self, text: str) -> None:
        """Record speech of the user, in pieces of any size."""
        if text:
            self.user_is_heard = True
            self._add("user", text)
            self._changed.set()

    def user_finished(self) -> None:
        """Record that the user's speech has been transcribed in full up to now."""
        self.tells_end = True
        self._add("user_end")
        self._changed.set()

    def user_typed(self, text: str) -> None:
        """Record a typed message, which is complete and not a late transcription."""
        self._add("user_end")
        self._add("typed")
        self.user_said(text)
        self._add("user_end")

    def model_spoke(self, text: str = "") -> None:
        """Record speech of the model; this is cheap, since it runs for every chunk of audio.

        Args:
            text: The transcription. Without it, no question can be confirmed by voice.
        """
        self._add("model", text)

    def model_finished(self) -> None:
        """Record the end of the model's turn."""
        self._add("model_end")

    def turn_ended(self) -> None:
        """Record the end of the current turn, of the user or of the model."""
        self._add("user_end")
        self._add("model_end")
        self._changed.set()

    def interrupted(self) -> None:
        """Record that the user interrupted the model, and so did not hear the whole turn."""
        self._add("interrupted")

    def reconnected(self) -> None:
        """Record that the connection was replaced: current speech may be incomplete."""
        self._add("connection")
        self._changed.set()

    def recent_speech(self, most_characters: int) -> str:
        """Return the last characters of the user's speech."""
        texts: list[str] = []
        left = most_characters
        for piece in reversed(self._heard):
            if piece.kind != "user":
                continue
            texts.append(" ")
            for text in reversed(piece.texts):
                texts.append(text[-left:])
                left -= len(text)
                if left <= 0:
                    return "".join(reversed(texts)).strip()
        return "".join(reversed(texts)).strip()

    def user_texts(self, most_characters: int) -> list[str]:
        """Return the last utterances of the user, the latest first."""
        texts: list[str] = []
        goes_on = False
        for piece in reversed(self._heard):
            if piece.kind in ("user_end", "typed"):
                goes_on = False
            elif piece.kind == "user":
                most_characters -= piece.characters
                if most_characters < 0:
                    break
                said = "".join(piece.texts)
                # The model may speak between two parts of one utterance.
                if goes_on and not said.rstrip().endswith(_SENTENCE_ENDS):
                    texts[-1] = f"{said} {texts[-1]}"
                else:
                    texts.append(said)
                goes_on = True
        return texts

    def mark(self) -> int:
        """Mark the current position, such as that of a question, and return it."""
        self._add("mark")
        return self._numbers

    def exchange(
        self,
        question: int,
        asks: Callable[[str], bool],
        *,
        repeats: Callable[[str], bool] = lambda _: False,
        interrupted: bool = False,
    ) -> Exchange:
        """Return the exchange about a question.

        An answer is the user's speech after a turn in which the model asked the question. Speech
        that is transcribed while the model still speaks may belong to an earlier sentence.

        Args:
            question: The position that `mark` returned.
            asks: Returns whether the speech of one turn of the model asks the question.
            repeats: Returns whether it contains the words of the question, asked or not.
            interrupted: Whether an answer may interrupt the question.
        """
        first = self._heard[0].number if self._heard else 1
        is_late = self.tells_end and self._is_open_at(question)
        reading = _ExchangeReader(asks, repeats, self.tells_end, is_late, interrupted)
        reading.exchange.forgotten = first > question + 1
        for piece in self._heard:
            if piece.number > question:
                reading.take(piece)
        reading.finish()
        return reading.exchange

    def was_cut_since(self, position: int) -> bool:
        """Return whether the connection was lost or replaced after a position."""
        return any(each.kind == "connection" and each.number > position for each in self._heard)

    async def wait_for_change(self, seconds: float) -> bool:
        """Wait until the user speaks again or a turn ends; return whether this happened in time."""
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def _is_open_at(self, question: int) -> bool:
        """Return whether an earlier sentence is still being transcribed at that position."""
        kinds = [
            piece.kind
            for piece in self._heard
            if piece.number <= question and piece.kind in ("user", "user_end", "connection")
        ]
        return bool(kinds) and kinds[-1] == "user"

    def _add(self, kind: Kind, text: str = "") -> None:
        last = self._heard[-1] if self._heard else None
        if last is None or last.kind != kind or last.characters > _MAX_CHARACTERS:
            self._numbers += 1
            last = TranscriptPiece(number=self._numbers, kind=kind)
            self._heard.append(last)
        elif kind == "mark":
            return  # nothing was said since the last mark
        if text:
            last.texts.append(text)
            last.characters += len(text)
            self._characters += len(text)
        while len(self._heard) > 1 and (
            len(self._heard) > _REMEMBERED or self._characters > _MAX_CHARACTERS_IN_ALL
        ):
            self._characters -= self._heard.popleft().characters


class _ExchangeReader:
    """Builds an `Exchange` from the pieces of a transcript; the arguments are as for `exchange`."""

    def __init__(
        self,
        asks: Callable[[str], bool],
        repeats: Callable[[str], bool],
        tells_end: bool,
        is_late: bool,
        interrupted: bool,
    ) -> None:
        self.exchange = Exchange()
        self._asks = asks
        self._repeats = repeats
        self._tells_end = tells_end
        self._is_late = is_late
        self._interrupted = interrupted
        self._speech: list[str] | None = None
        self._meanwhile: list[Utterance] = []
        self._said = self.exchange.earlier
        self._current: Utterance | None = None
        self._over_model: Utterance | None = None
        self._spoke_since = False
        self._is_typed = False
        self._ends = {
            "typed": self._begin_typed,
            "user_end": self._end_utterance,
            "model_end": self._end_turn,
            "interrupted": self._interrupt,
            "connection": self._break_off,
        }

    def take(self, piece: TranscriptPiece) -> None:
        """Process the next piece."""
        if piece.kind == "user":
            self._user("".join(piece.texts), piece.number)
        elif piece.kind == "model":
            exchange = self.exchange
            exchange.model_spoke = True
            exchange.model_words = exchange.model_words or bool(piece.texts)
            self._speech = [*(self._speech or ()), *piece.texts]
        elif piece.kind in self._ends:
            self._ends[piece.kind]()

    def finish(self) -> None:
        """Process a turn of the model that has not ended.

        Speech of the user during it can make an answer doubtful, but is never a yes.
        """
        exchange = self.exchange
        if self._speech is None:
            return
        if self._is_asked_again(self._speech):  # earlier speech answers nothing
            exchange.earlier += exchange.answers
            exchange.answers, exchange.meanwhile = [], self._meanwhile
        elif exchange.asked:
            pending = [each for each in self._meanwhile if not each.goes_on]
            exchange.meanwhile = exchange.meanwhile + pending
        else:
            self._drop_turn()

    def _is_asked_again(self, speech: list[str]) -> bool:
        """Return whether a turn asks the question at any point; check a long one at its end."""
        is_long = len(speech) > _MAX_PARTS or sum(map(len, speech)) > _MAX_CHARACTERS_IN_PARTS
        ends = [len(speech)] if is_long else range(1, len(speech) + 1)
        return self._repeats("".join(speech)) or any(
            self._asks("".join(speech[:end])) for end in ends
        )

    def _user(self, text: str, number: int) -> None:
        speaking = self._speech is not None
        if self._current is None:
            # A message typed during other words of the model is not a late transcription.
            is_over = self._is_typed and any(self._speech or ())
            self._current = Utterance(
                text="", last=number, goes_on=self._is_late, ambiguous=self._spoke_since or is_over
            )
            if self._is_late:
                self.exchange.earlier.append(self._current)
            elif speaking:
                self._over_model = self._current
                self._meanwhile.append(self._current)
            else:
                self._said.append(self._current)
        if speaking and self._over_model is None:
            self._over_model = Utterance(text="", last=number, goes_on=True)
            self._meanwhile.append(self._over_model)
        elif self._current.goes_on and self.exchange.asked and self._over_model is None:
            # The rest of an earlier sentence is not a yes; a no in it must not be lost.
            self._over_model = Utterance(text="", last=number, goes_on=True)
            self.exchange.meanwhile.append(self._over_model)
        self._current.hear(text, number)
        if self._over_model is not None and self._over_model is not self._current:
            self._over_model.hear(text, number)

    def _begin_typed(self) -> None:
        self._is_typed = True

    def _end_utterance(self) -> None:
        self._is_typed = False
        for each in (self._current, self._over_model):
            if each is not None:
                each.over = True
        self._current = self._over_model = None
        self._is_late = False

    def _break_off(self) -> None:
        for each in (self._current, self._over_model):
            if each is not None:
                each.broken = True
        self._current, self._is_late = None, False
        self._drop_turn(is_cut=True)

    def _end_turn(self) -> None:
        exchange = self.exchange
        if self._speech is not None and self._asks("".join(self._speech)):
            exchange.asked, exchange.speech = True, "".join(self._speech)
            exchange.earlier += exchange.answers
            exchange.answers = self._said = []
            exchange.meanwhile = self._meanwhile
            self._is_late = self._is_late or (self._tells_end and self._over_model is not None)
            self._speech, self._meanwhile, self._spoke_since = None, [], False
        self._drop_turn()
        self._current = None

    def _interrupt(self) -> None:
        if self._interrupted and self._speech is not None and self._asks("".join(self._speech)):
            self.exchange.asked, self.exchange.speech = True, "".join(self._speech)
            self._said = self.exchange.answers
        self._drop_turn(is_cut=True)

    def _drop_turn(self, *, is_cut: bool = False) -> None:
        """End a turn of the model that did not ask the question, or that was cut off."""
        if self.exchange.asked and not self._interrupted and any(self._speech or ()):
            self._end_other_turn(self._speech or [], is_cut=is_cut)
        self._said += [each for each in self._meanwhile if not each.goes_on]
        self._speech, self._meanwhile, self._over_model = None, [], None

    def _end_other_turn(self, speech: list[str], *, is_cut: bool) -> None:
        """Make later answers ambiguous: a yes may refer to later speech of the model.

        Speech during a turn that ends by itself may be the late transcription of an answer, unless
        that turn asks something.
        """
        exchange = self.exchange
        said = "".join(speech)
        # A cut turn may have been heard only in part; a complete one has already been judged.
        if self._is_asked_again(speech) if is_cut else self._repeats(said):
            exchange.earlier += exchange.answers
            exchange.asked, exchange.answers, self._said = False, [], exchange.earlier
        asks = has_question(said) or not _QUESTION_MARKS.isdisjoint(said)
        for each in self._meanwhile:
            each.ambiguous = each.ambiguous or is_cut or asks
        self._spoke_since = True
