"""`Toolbox`: tools that are created from settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict

from leonidas_tools.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from leonidas_tools.session.notices import Notices
    from leonidas_tools.store.reminders import ReminderTable
    from leonidas_tools.tools.tool import Tool

Access: TypeAlias = Literal["files", "network", "programs", "store"]
"""Resources outside of this process that a tool may use."""


class ToolboxHost(Protocol):
    """Services for the background work of a toolbox."""

    @property
    def notices(self) -> Notices:
        """Return the conversations that can receive notices."""

    @property
    def reminders(self) -> ReminderTable | None:
        """Return the reminders of all users; `None` if there is no store."""


class NoSettings(BaseModel):
    """The settings of a toolbox that has none."""

    model_config = ConfigDict(frozen=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Toolbox:
    """Tools that are created from settings; a module exports it as `TOOLBOX`.

    Args:
        summary: The purpose of its tools, in one sentence.
        make: Creates the tools from valid settings. It is called when the settings are read, again
            when they change, and by commands that only list tools: it opens and starts nothing.
        settings: The model of its settings, a subclass of `pydantic.BaseModel`. Unknown keys are
            refused.
        serve: Background work while a runtime is open, with the same settings. It is cancelled
            when the runtime closes, or the settings change.
        access: What the tools may use: `files`, `network`, `programs`, `store`.

    Raises:
        SchemaError: `settings` is not such a model.

    Example:
        >>> from leonidas_tools import tool
        >>> class Shop(BaseModel):
        ...     currency: str = "EUR"
        >>> def make(settings: Shop):
        ...     @tool(effect="read")
        ...     def get_price(item: str) -> str:
        ...         return f"4 {settings.currency}"
        ...
        ...     return [get_price]
        >>> TOOLBOX = Toolbox(summary="Prices of a shop.", settings=Shop, make=make)
        >>> TOOLBOX.make(Shop(currency="GBP"))[0](item="tea")
        '4 GBP'
    """

    summary: str
    make: Callable[[Any], Sequence[Tool[..., Any] | Callable[..., Any]]]
    settings: type[BaseModel] = NoSettings
    serve: Callable[[Any, ToolboxHost], Coroutine[Any, Any, None]] | None = None
    access: frozenset[Access] = frozenset()

    def __post_init__(self) -> None:
        model: object = self.settings
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            raise SchemaError(
                "settings of a Toolbox must be a class derived from pydantic.BaseModel, not "
                f"{model!r}"
            )
