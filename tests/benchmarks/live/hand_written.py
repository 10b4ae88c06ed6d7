"""The floor: google-genai's session in a loop written by hand, as short as it goes."""

import asyncio
import contextlib
import inspect
import json
from collections.abc import AsyncGenerator, AsyncIterable
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from google.genai import Client, errors, live, types

from tests.benchmarks.adapter import Part
from tests.benchmarks.live.agent import MODEL, Brief

_NORMAL, _ABNORMAL = 1000, 1006
_AGAIN_SECONDS = 0.4


class HandWritten:
    """Sends what comes, hands on what is heard, answers calls, and resumes a lost session."""

    def __init__(self, brief: Brief) -> None:
        self._brief = brief
        self._client = Client()
        self._threads = ThreadPoolExecutor(64)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._threads.shutdown()

    def talk(self, says: AsyncIterable[Part]) -> AsyncGenerator[bytes, None]:
        """One conversation."""
        return _Conversation(self._brief, self._client, self._threads).talk(says)


class _Conversation:
    def __init__(self, brief: Brief, client: Client, threads: ThreadPoolExecutor) -> None:
        self._brief = brief
        self._client = client
        self._threads = threads
        self._inputs: asyncio.Queue[Part | None] = asyncio.Queue()
        self._running: set[asyncio.Task[None]] = set()
        self._late: list[types.FunctionResponse] = []
        self._session: live.AsyncSession | None = None
        self._was_lost = False
        self._handle: str | None = None

    async def talk(self, says: AsyncIterable[Part]) -> AsyncGenerator[bytes, None]:
        reading = asyncio.create_task(self._read(says))
        while True:
            try:
                async for data in self._hold_connection():
                    yield data
            except errors.APIError as error:
                if error.code == _NORMAL:
                    break
                if error.code != _ABNORMAL:
                    raise
                self._session, self._was_lost = None, True
                self._brief.lost()
            except OSError:
                await asyncio.sleep(_AGAIN_SECONDS)
        await reading

    async def _read(self, says: AsyncIterable[Part]) -> None:
        async for part in says:
            self._inputs.put_nowait(part)
        self._inputs.put_nowait(None)

    async def _hold_connection(self) -> AsyncGenerator[bytes, None]:
        async with self._client.aio.live.connect(model=MODEL, config=self._config()) as session:
            self._session = session
            sending = asyncio.create_task(self._send(session))
            try:
                while True:
                    async for message in session.receive():
                        if message.data is not None:
                            yield message.data
                        self._note(session, message)
            finally:
                sending.cancel()

    def _config(self) -> types.LiveConnectConfig:
        declared = [types.FunctionDeclaration(name=name) for name in self._brief.functions]
        return types.LiveConnectConfig(
            response_modalities=[types.Modality.AUDIO],
            tools=[types.Tool(function_declarations=declared)],
            session_resumption=types.SessionResumptionConfig(handle=self._handle),
        )

    def _note(self, session: live.AsyncSession, message: types.LiveServerMessage) -> None:
        update = message.session_resumption_update
        if update is not None and update.new_handle:
            self._handle = update.new_handle
        if message.tool_call is not None:
            for call in message.tool_call.function_calls or ():
                task = asyncio.create_task(self._answer(session, call))
                self._running.add(task)
                task.add_done_callback(self._running.discard)

    async def _send(self, session: live.AsyncSession) -> None:
        if self._was_lost:
            self._was_lost = False
            if self._running:
                await asyncio.wait(self._running)
        if self._late:
            lines = [json.dumps({"id": r.id, "response": r.response}) for r in self._late]
            content = types.Content(role="user", parts=[types.Part(text="\n".join(lines))])
            self._late.clear()
            await session.send_client_content(turns=content)
        while (part := await self._inputs.get()) is not None:
            if part.part.inline_data is not None:
                await session.send_realtime_input(audio=part.part.inline_data)
            else:
                await session.send_realtime_input(text=part.text)
        await session.close()

    async def _answer(self, session: live.AsyncSession, call: types.FunctionCall) -> None:
        function, args = self._brief.functions[call.name or ""], call.args or {}
        if inspect.iscoroutinefunction(function):
            value = await function(**args)
        else:
            loop = asyncio.get_running_loop()
            value = await loop.run_in_executor(self._threads, lambda: function(**args))
        response = types.FunctionResponse(id=call.id, name=call.name, response={"result": value})
        if session is not self._session:
            self._late.append(response)
            return
        with contextlib.suppress(errors.APIError):
            await session.send_tool_response(function_responses=response)


def make(brief: Brief) -> HandWritten:
    """The floor."""
    return HandWritten(brief)
