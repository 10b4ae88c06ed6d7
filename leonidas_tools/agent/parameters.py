"""Model parameters that may change while an agent runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from leonidas_tools.tools.tool import tool

if TYPE_CHECKING:
    from leonidas_tools.agent.models.model import ModelParameters
    from leonidas_tools.calls.context import ToolContext


class AdjustedParameters:
    """The changed model parameters of a session.

    Example:
        >>> from leonidas_tools.agent.models import ModelParameters
        >>> adjusted = AdjustedParameters()
        >>> adjusted.change(temperature=0.2)
        >>> adjusted.apply_to(ModelParameters(top_p=0.9)).temperature
        0.2
    """

    def __init__(self) -> None:
        self.changes: dict[str, Any] = {}
        """The changed values, by name."""

    def change(self, **values: float | None) -> None:
        """Change the parameters that are not `None`."""
        self.changes |= {name: value for name, value in values.items() if value is not None}

    def put(self, changes: dict[str, Any]) -> None:
        """Replace all changes."""
        self.changes = changes

    def apply_to(self, parameters: ModelParameters) -> ModelParameters:
        """Return the parameters with the changes."""
        return replace(parameters, **self.changes) if self.changes else parameters


@tool(
    category="action",
    effect="idempotent",
    tags=["agent"],
    after_untrusted="allow",
)
async def adjust_llm_parameters(  # noqa: D417 - models read it; `ctx` is not an argument
    ctx: ToolContext,
    temperature: Annotated[float, Field(ge=0.0, le=2.0)] | None = None,
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] | None = None,
    max_output_tokens: Annotated[int, Field(ge=16, le=100_000)] | None = None,
) -> dict[str, Any]:
    """Change how you answer from the next turn on; what is left out stays as it is.

    Args:
        temperature: Lower for exact answers, higher for other ideas.
        top_p: The share of the likeliest words to choose from.
        max_output_tokens: How long an answer may be.
    """
    adjusted = ctx.session.get(AdjustedParameters)
    ctx.undo(adjusted.put, dict(adjusted.changes))
    adjusted.change(temperature=temperature, top_p=top_p, max_output_tokens=max_output_tokens)
    return dict(adjusted.changes)
