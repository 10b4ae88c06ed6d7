"""The weather of today and tomorrow, from a service with the API of Open-Meteo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

import httpx2
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from leonidas_tools.calls.call import ToolResult
from leonidas_tools.errors import ToolError
from leonidas_tools.files.certificates import trusted_certificates
from leonidas_tools.redaction.http_logs import unlogged_requests
from leonidas_tools.redaction.visible import visible
from leonidas_tools.results.texts import join, say
from leonidas_tools.settings.fields import Duration, DurationOrOff, Name
from leonidas_tools.settings.model import SettingsModel
from leonidas_tools.tools.tool import Tool
from leonidas_tools.tools.toolbox import Toolbox

_MAX_BYTES = 262_144
_MAX_NAME_LENGTH = 80
_LIKELY_PERCENT = 30
_CONDITIONS: Mapping[int, str] = {
    0: "clear sky",
    1: "mostly clear",
    2: "partly cloudy",
    3: "overcast",
    45: "fog",
    48: "freezing fog",
    51: "light drizzle",
    53: "drizzle",
    55: "heavy drizzle",
    56: "light freezing drizzle",
    57: "freezing drizzle",
    61: "light rain",
    63: "rain",
    65: "heavy rain",
    66: "light freezing rain",
    67: "freezing rain",
    71: "light snow",
    73: "snow",
    75: "heavy snow",
    77: "snow grains",
    80: "light showers",
    81: "showers",
    82: "violent showers",
    85: "light snow showers",
    86: "snow showers",
    95: "thunderstorms",
    96: "thunderstorms with light hail",
    99: "thunderstorms with heavy hail",
}
"""Conditions by the weather code of the WMO."""

M = TypeVar("M", bound=BaseModel)


def _address(address: str) -> str:
    """Check the base URL of a service."""
    if not address.startswith(("http://", "https://")):
        raise ValueError("is not an HTTP URL: begin it with https:// or http://")
    return address.rstrip("/")


Address = Annotated[Name, AfterValidator(_address)]


class WeatherSettings(SettingsModel):
    """Settings of the weather.

    Args:
        default_city: The city to use if a call names none.
        unit: The unit of temperatures, `celsius` or `fahrenheit`.
        language: The language of place names, such as `en`, `pt` or `zh`.
        address: The base URL of the forecast service.
        places_address: The base URL of the geocoding service.
        timeout: The timeout of a request.
        cache: The time to cache a result; `0` or `off` for no cache.
        stale: The additional time to use a cached result if a call fails; `0` or `off` for none.
    """

    default_city: Name | None = None
    unit: Literal["celsius", "fahrenheit"] = "celsius"
    language: Name = "en"
    address: Address = "https://api.open-meteo.com"
    places_address: Address = "https://geocoding-api.open-meteo.com"
    timeout: Duration = 10.0
    cache: DurationOrOff = 1800.0
    stale: DurationOrOff = 10_800.0


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class _Place(_Answer):
    name: str
    latitude: Annotated[float, Field(ge=-90, le=90)]
    longitude: Annotated[float, Field(ge=-180, le=180)]
    country: str = ""
    admin1: str = ""


class _Places(_Answer):
    results: list[_Place] = []


class _Current(_Answer):
    temperature_2m: float
    weather_code: int
    relative_humidity_2m: float | None = None
    wind_speed_10m: float | None = None


class _Daily(_Answer):
    time: Annotated[list[str], Field(min_length=2)]
    weather_code: Annotated[list[int], Field(min_length=2)]
    temperature_2m_max: Annotated[list[float], Field(min_length=2)]
    temperature_2m_min: Annotated[list[float], Field(min_length=2)]
    precipitation_probability_max: list[float | None] = []


class _Forecast(_Answer):
    current: _Current
    daily: _Daily
    timezone: str = ""


class Weather:
    """The weather tool."""

    def __init__(self, settings: WeatherSettings) -> None:
        self._settings = settings

    async def weather_query(
        self,
        city: Annotated[str, Field(max_length=100)] | None = None,
        date: Literal["today", "tomorrow"] = "today",
    ) -> ToolResult:
        """Weather in a city, today or tomorrow.

        Args:
            city: Name of the city; that of the settings by default.
            date: Which day.
        """
        wanted = (city or "").strip() or self._settings.default_city
        if wanted is None:
            message = say("weather_no_city")
            raise ToolError(message, status="invalid_argument", reason_code="no_city")
        certificates = await trusted_certificates()
        timeout = self._settings.timeout
        async with httpx2.AsyncClient(verify=certificates, timeout=timeout) as client:
            place = await self._place(client, wanted)
            forecast = await self._forecast(client, place)
        return _result(place, forecast, date, self._settings.unit)

    async def _place(self, client: httpx2.AsyncClient, city: str) -> _Place:
        asked = {"name": city, "count": 1, "language": self._settings.language, "format": "json"}
        address = f"{self._settings.places_address}/v1/search"
        found = await _get(client, address, asked, _Places)
        if not found.results:
            raise ToolError(
                say("weather_unknown_city", city=city),
                status="not_found",
                reason_code="unknown_city",
            )
        return found.results[0]

    async def _forecast(self, client: httpx2.AsyncClient, place: _Place) -> _Forecast:
        asked = {
            "latitude": place.latitude,
            "longitude": place.longitude,
            "current": "temperature_2m,relative_humidity_2m,weather_code,wind_speed_10m",
            "daily": "weather_code,temperature_2m_max,temperature_2m_min,"
            "precipitation_probability_max",
            "temperature_unit": self._settings.unit,
            "timezone": "auto",
            "forecast_days": 2,
        }
        return await _get(client, f"{self._settings.address}/v1/forecast", asked, _Forecast)


async def _get(
    client: httpx2.AsyncClient, address: str, asked: Mapping[str, Any], kind: type[M]
) -> M:
    """Request JSON of bounded size from a service, without following redirects."""
    headers = {"accept": "application/json", "accept-encoding": "identity"}
    body = bytearray()
    try:
        with unlogged_requests():
            async with client.stream("GET", address, params=dict(asked), headers=headers) as answer:
                _check(answer)
                async for piece in answer.aiter_raw():
                    body += piece
                    if len(body) > _MAX_BYTES:
                        raise _unreadable("too_long")
    except httpx2.HTTPError as error:
        message = say("weather_unreachable")
        raise ToolError(
            message, status="unavailable", retryable=True, reason_code="unreachable"
        ) from error
    try:
        return kind.model_validate_json(bytes(body))
    except ValidationError:
        raise _unreadable("wrong_format") from None


def _check(answer: httpx2.Response) -> None:
    """Refuse an error response, and a compressed one, which can grow without bound."""
    if answer.status_code >= 500 or answer.status_code == 429:  # noqa: PLR2004 - HTTP status codes
        raise ToolError(
            say("weather_unreachable"),
            status="unavailable",
            retryable=True,
            reason_code=f"http_{answer.status_code}",
        )
    if not answer.is_success:
        raise _unreadable(f"http_{answer.status_code}")
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise _unreadable("compressed")


def _unreadable(reason_code: str) -> ToolError:
    return ToolError(
        say("weather_unreadable"), status="unavailable", retryable=False, reason_code=reason_code
    )


def _result(place: _Place, forecast: _Forecast, date: str, unit: str) -> ToolResult:
    day, daily, now = int(date == "tomorrow"), forecast.daily, forecast.current
    chances = daily.precipitation_probability_max
    chance = chances[day] if len(chances) > day else None
    low, high = daily.temperature_2m_min[day], daily.temperature_2m_max[day]
    result: dict[str, Any] = {
        "city": _name(place.name),
        "region": _name(place.admin1),
        "country": _name(place.country),
        "date": _name(daily.time[day]),
        "condition": _condition(daily.weather_code[day]),
        "low": low,
        "high": high,
        "unit": unit,
        "precipitation_percent": chance,
    }
    if day:
        speech = say(
            "weather_tomorrow",
            city=result["city"],
            condition=result["condition"],
            low=_degrees(low),
            high=_degrees(high),
        )
    else:
        result["now"] = {
            "degrees": now.temperature_2m,
            "condition": _condition(now.weather_code),
            "humidity_percent": now.relative_humidity_2m,
            "wind_kmh": now.wind_speed_10m,
        }
        speech = say(
            "weather_now",
            city=result["city"],
            degrees=_degrees(now.temperature_2m),
            condition=_condition(now.weather_code),
            low=_degrees(low),
            high=_degrees(high),
        )
    if chance is not None and chance >= _LIKELY_PERCENT:
        speech = join(speech, say("weather_rain", percent=round(chance)))
    return ToolResult(result=result, speech=speech)


def _condition(code: int) -> str:
    return _CONDITIONS.get(code, "unknown")


def _degrees(value: float) -> str:
    """Return a temperature in spoken form."""
    rounded = round(value)
    return f"minus {-rounded}" if rounded < 0 else str(rounded)


def _name(text: str) -> str:
    """Return a text of the service, shortened, with invisible characters made visible."""
    return visible(" ".join(text.split()))[:_MAX_NAME_LENGTH]


def _make(settings: WeatherSettings) -> Sequence[Tool[..., Any]]:
    return (
        Tool(
            Weather(settings).weather_query,
            category="query",
            effect="read",
            tags=["weather"],
            cache_seconds=settings.cache or "off",
            stale_if_error_seconds=settings.stale or "off",
        ),
    )


TOOLBOX = Toolbox(
    summary="The weather of today and tomorrow, by Open-Meteo.",
    make=_make,
    settings=WeatherSettings,
    access=frozenset({"network"}),
)
