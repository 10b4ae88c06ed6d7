"""What every way of answering calls can do, so that each workload is written once."""

import importlib
from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from typing import Any, Protocol, Self, TypeAlias, cast

from genai_processors import content_api

Part: TypeAlias = content_api.ProcessorPart
Functions: TypeAlias = Mapping[str, Callable[..., Any]]


class Adapter(Protocol):
    """One way of answering calls, open within `async with`."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...

    async def answer(self, calls: Sequence[Part]) -> Sequence[Any]:
        """Sends the calls at once and returns when all are answered."""
        ...

    def stream(self, parts: AsyncIterable[Part]) -> AsyncIterable[Part]:
        """A session: parts in, parts and answers out."""
        ...

    def value(self, answer: Any) -> Any:
        """What the tool returned, out of one answer."""
        ...


def open_adapter(name: str, functions: Functions) -> Adapter:
    """The adapter of this name, imported only now, so that nobody pays for another's imports."""
    module = importlib.import_module(f"tests.benchmarks.adapters.{name}")
    return cast("Adapter", module.make(functions))
