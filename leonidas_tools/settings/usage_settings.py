"""Settings of the tokens of live sessions: prices and limits."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from leonidas_tools.settings.fields import CostOrNone, LimitOrNone, Name, Share, mapping, number
from leonidas_tools.settings.model import SettingsModel

_MILLION = 1_000_000

Price = Annotated[float, Field(ge=0, allow_inf_nan=False), BeforeValidator(number)]
InputKind = Literal["text", "audio", "image", "video", "cached", "tool_use"]
OutputKind = Literal["text", "audio", "image", "video", "thoughts"]


class ModelPrices(SettingsModel):
    """The prices of a model, each for a million tokens.

    A kind without a price costs the highest price of its direction.

    Args:
        input: Prices by `text`, `audio`, `image`, `video`, `cached` and `tool_use`.
        output: Prices by `text`, `audio`, `image`, `video` and `thoughts`.
    """

    input: Annotated[dict[InputKind, Price], Field(min_length=1)]
    output: Annotated[dict[OutputKind, Price], Field(min_length=1)]

    def cost_of(self, tokens: Mapping[str, Mapping[str, int]]) -> float:
        """Return the cost of tokens by direction and kind."""
        cost = 0.0
        for direction, counts in tokens.items():
            prices: Mapping[str, float] = getattr(self, direction)
            dearest = max(prices.values())
            cost += sum(count * prices.get(kind, dearest) for kind, count in counts.items())
        return cost / _MILLION


class UsageLimit(SettingsModel):
    """A limit on what is used; no limit, if both are omitted.

    Args:
        tokens: The maximum number of tokens, input and output together.
        cost: The maximum cost, in `usage.currency`; it needs prices.
    """

    tokens: LimitOrNone = None
    cost: CostOrNone = None


class UsageSettings(SettingsModel):
    """Prices of the tokens of live sessions, and limits.

    Args:
        currency: The currency of all prices and costs, such as `EUR`.
        prices: The prices by the name of the model, such as `gemini-3.8-live`.
        session: The limit of a session, also if it is resumed.
        user_day: The limit of a user in all sessions of a day (UTC).
        warn_at: The share of a limit at which the user is told what is left.
    """

    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")] = "USD"
    prices: Annotated[dict[Name, ModelPrices], BeforeValidator(mapping)] = Field(
        default_factory=dict
    )
    session: Annotated[UsageLimit, BeforeValidator(mapping)] = UsageLimit.model_construct()
    user_day: Annotated[UsageLimit, BeforeValidator(mapping)] = UsageLimit.model_construct()
    warn_at: Share = 0.8

    @property
    def has_limits(self) -> bool:
        """Return whether there is any limit."""
        limits = (self.session, self.user_day)
        return any((each.tokens or each.cost) is not None for each in limits)

    @model_validator(mode="after")
    def _costs_have_prices(self) -> Self:
        for name in ("session", "user_day"):
            if getattr(self, name).cost is not None and not self.prices:
                raise ValueError(f"{name}.cost needs the prices of a model: write usage.prices")
        return self
