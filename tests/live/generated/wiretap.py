"""What crossed the wire on the client's side, and what it knows to have arrived."""

import json

from google.genai.types import HttpOptions
from websockets.asyncio.client import ClientConnection

from leonidas_tools.simulator.wire import fields


class Wire:
    """One connection of the client: what its messages say of calls, and where among them all.

    Only that is kept, so that a conversation may last.
    """

    def __init__(self):
        self.length = 0
        """How many messages there were, in both directions."""
        self.confirmed = 0
        """How many of them have surely arrived: a ping that was sent after them was answered."""
        self._received = []
        self._delivered = []

    def note(self, direction, frame):
        at, self.length = self.length, self.length + 1
        try:
            message = json.loads(frame)
        except ValueError:
            return
        if not isinstance(message, dict):
            return
        if direction == "in":
            self._received += [(at, *each) for each in _asked_in(message)]
        else:
            self._delivered += [(at, *each) for each in _delivered_in(message)]

    def confirm(self, length, pong):
        if not pong.cancelled() and pong.exception() is None:
            self.confirmed = max(self.confirmed, length)

    def received(self):
        """The function calls and cancellations that came in: where, what, id, and name."""
        return tuple(self._received)

    def delivered(self):
        """The final outcomes that went out: where, how, under which id, of which function."""
        return tuple(self._delivered)


def _asked_in(message):
    for call in calls_in(message):
        yield "call", call.get("id"), call.get("name")
    for cancelled in (message.get("toolCallCancellation") or {}).get("ids", ()):
        yield "cancel", cancelled, None


def _delivered_in(message):
    for answer in message.get("tool_response", {}).get("functionResponses", ()):
        ends_lost_call = "error" in answer["response"]  # no outcome: that follows as text
        if not fields(answer).get("willContinue") and not ends_lost_call:
            yield "answer", answer.get("id"), answer["name"], answer["response"]
    for told in outcomes_in(message):
        yield "told", told["id"], told["name"], told["response"]


class Wiretap:
    """The connections that a client opens with these options."""

    def __init__(self):
        self.wires = []

    def options(self, options: HttpOptions) -> HttpOptions:
        """The options, with every connection listened to."""
        wires = self.wires

        class Tapped(ClientConnection):
            def __init__(self, *args, **settings):
                super().__init__(*args, **settings)
                self._wire = Wire()
                wires.append(self._wire)

            async def send(self, message, **how):
                self._wire.note("out", message)
                await super().send(message, **how)

            async def recv(self, decode=None):
                frame = await super().recv(decode)
                self._wire.note("in", frame)
                return frame

            async def ping(self, data=b""):
                length = self._wire.length
                pong = await super().ping(data or None)
                pong.add_done_callback(lambda done: self._wire.confirm(length, done))
                return pong

        tapped = options.model_copy()
        tapped.async_client_args = {**options.async_client_args, "create_connection": Tapped}
        return tapped


def calls_in(message):
    """The function calls in a message of the server."""
    yield from (message.get("toolCall") or {}).get("functionCalls") or ()
    turn = (message.get("serverContent") or {}).get("modelTurn") or {}
    yield from (part["functionCall"] for part in turn.get("parts") or () if "functionCall" in part)


def outcomes_in(message):
    """The outcomes that a message of the client tells as conversation."""
    texts = [message.get("realtime_input", {}).get("text", "")]
    for turn in message.get("client_content", {}).get("turns", ()):
        texts += [part.get("text", "") for part in turn.get("parts", ())]
    for text in texts:
        yield from (json.loads(line) for line in text.splitlines() if line.startswith("{"))
