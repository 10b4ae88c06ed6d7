"""Sessions of Pipecat's Gemini Live service: `python pipecat_program.py SESSIONS FRAMES WARM_UP`.

It knows nothing of this repository, since it runs where Pipecat is installed. The pipeline of a
session has the service and a listener, and nothing else: what else a user puts there comes on top.
The last line that it writes are the figures, in JSON.
"""

import asyncio
import gc
import json
import os
import struct
import sys
import time
from typing import Any

from loguru import logger
from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
from pipecat.frames.frames import EndFrame, InputAudioRawFrame, LLMContextFrame, TTSAudioRawFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.google.gemini_live.llm import GeminiLiveLLMService
from pipecat.workers.runner import WorkerRunner

_FRAME_SECONDS = 0.02
_CALL_SECONDS = 0.1
_STAMP = struct.Struct("<Id")
_MICROPHONE_BYTES = 640
_HERTZ = 16_000
_HELLO = 0xFFFFFFFF


class Listener(FrameProcessor):
    """The end of a pipeline; notes the frames of the agent."""

    def __init__(self, heard: list[tuple[int, float]]) -> None:
        super().__init__()
        self.greeted = asyncio.Event()
        self._heard = heard

    async def process_frame(self, frame: Any, direction: Any) -> None:
        """Note a frame, and pass it on."""
        await super().process_frame(frame, direction)
        if isinstance(frame, TTSAudioRawFrame):
            number, sent_at = _STAMP.unpack_from(frame.audio)
            self.greeted.set()
            if number != _HELLO:
                self._heard.append((number, time.monotonic() - sent_at))
        await self.push_frame(frame, direction)


async def look(params: Any) -> None:
    """Look something up."""
    await asyncio.sleep(_CALL_SECONDS)
    await params.result_callback({"result": params.arguments["number"]})


def made(listener: Listener) -> PipelineWorker:
    """Return a session."""
    parameters = {"number": {"type": "integer"}}
    schema = FunctionSchema("look", "Look something up.", parameters, ["number"])
    service = GeminiLiveLLMService(
        api_key=os.environ["GEMINI_API_KEY"],
        settings=GeminiLiveLLMService.Settings(model="models/gemini-3.8-live"),
        tools=ToolsSchema(standard_tools=[schema]),
        inference_on_context_initialization=False,
    )
    service.register_function("look", look, cancel_on_interruption=False)
    return PipelineWorker(Pipeline([service, listener]), enable_rtvi=False)


async def speak(worker: PipelineWorker, begun: float, frames: int) -> None:
    """Speak at the pace of a microphone."""
    for number in range(frames):
        due = begun + number * _FRAME_SECONDS
        await asyncio.sleep(due - time.monotonic())
        await worker.queue_frame(frame(number, due))


def frame(number: int, due: float) -> InputAudioRawFrame:
    """Return 20 ms of microphone."""
    sound = _STAMP.pack(number, due) + bytes(_MICROPHONE_BYTES - _STAMP.size)
    return InputAudioRawFrame(audio=sound, sample_rate=_HERTZ, num_channels=1)


async def greet(worker: PipelineWorker, listener: Listener) -> None:
    """Wait until the session is there: it drops what comes before, so it is greeted on and on."""
    await worker.queue_frame(LLMContextFrame(LLMContext()))
    while not listener.greeted.is_set():
        await worker.queue_frame(frame(_HELLO, 0.0))
        await asyncio.sleep(_FRAME_SECONDS)


async def main(sessions: int, frames: int, warm_up: int) -> None:
    """Hold all sessions, and write what they cost."""
    logger.remove()
    heard: list[tuple[int, float]] = []
    runner = WorkerRunner(handle_sigint=False)
    listeners = [Listener(heard) for _ in range(sessions)]
    workers = [made(listener) for listener in listeners]
    await runner.add_workers(*workers)
    running = asyncio.create_task(runner.run())
    await asyncio.gather(*map(greet, workers, listeners))
    gc.collect()
    begun = time.monotonic()
    async with asyncio.TaskGroup() as speaking:
        for number, worker in enumerate(workers):
            own = begun + number * _FRAME_SECONDS / sessions
            speaking.create_task(speak(worker, own, frames))
        await asyncio.sleep(warm_up * _FRAME_SECONDS)
        since, cpu = time.monotonic(), time.process_time()
        await asyncio.sleep((frames - warm_up) * _FRAME_SECONDS)
        cost = (time.process_time() - cpu) / (time.monotonic() - since) / sessions
    await asyncio.sleep(_CALL_SECONDS + 0.5)
    for worker in workers:
        await worker.queue_frame(EndFrame())
    await asyncio.wait([running], timeout=5)
    print(json.dumps({"cost": cost, "heard": heard}), flush=True)
    os._exit(0)  # it waits for turns of the agent that have no end here


asyncio.run(main(*map(int, sys.argv[1:])))
