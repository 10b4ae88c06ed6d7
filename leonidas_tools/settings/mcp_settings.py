"""Settings of MCP servers."""

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal, Self, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    field_serializer,
    model_validator,
)

from leonidas_tools.redaction import MASK, secrets_in
from leonidas_tools.redaction.addresses import secrets_of_path
from leonidas_tools.settings.fields import (
    Count,
    CountOrOff,
    Duration,
    DurationOrOff,
    Name,
    Names,
    OptionalTimeLimit,
    Parameters,
    Port,
    Switch,
    Texts,
    Transport,
    mapping,
)
from leonidas_tools.settings.model import SettingsModel
from leonidas_tools.settings.shown import without_secret_options
from leonidas_tools.settings.tool_configuration import ToolConfiguration

_LONGEST_NAME = 100


def _server_name(name: str) -> str:
    fits = 0 < len(name) <= _LONGEST_NAME and name.isprintable()
    if not fits or name != name.strip() or name.startswith("-"):
        raise ValueError(
            f"is not a valid server name: a name has 1 to {_LONGEST_NAME} visible characters, no "
            "space at its ends and no '-' at its beginning"
        )
    return name


ServerName = Annotated[str, AfterValidator(_server_name)]
"""A name that can be read in messages, typed in commands and written as a key."""


class OAuthSettings(SettingsModel):
    """The login at a server over HTTP.

    As JSON, the secret is masked.

    Args:
        grant: `client_credentials`, for a program that has an account of its own, or
            `authorization_code`, where a person logs in with the browser, once.
        client_id: The client's id; with `authorization_code` it is registered with the server
            when left out, if the server allows that.
        client_secret: The client's secret.
        issuer: The authorization server that the client belongs to, such as
            `https://login.example.org`; its secret goes nowhere else. Whichever the server names
            when left out, unless that is unencrypted or closer to this machine than the server.
        scopes: What is asked for; what the server suggests when left out.
        callback_port: The port on this machine that the browser comes back to; any free one when
            left out.
        login_timeout: How long a person may take to log in.
    """

    grant: Literal["client_credentials", "authorization_code"] = "authorization_code"
    client_id: Name | None = None
    client_secret: Name | None = Field(default=None, repr=False)
    issuer: Name | None = None
    scopes: Names = ()
    callback_port: Port = None
    login_timeout: Duration = 300.0

    @field_serializer("client_secret", when_used="json")
    def _keep_secret(self, secret: str | None) -> str | None:
        return None if secret is None else "***"

    @model_validator(mode="after")
    def _refuse_half_an_account(self) -> Self:
        if self.grant == "client_credentials" and None in {self.client_id, self.client_secret}:
            raise ValueError("grant 'client_credentials' needs a client_id and a client_secret")
        return self


class SamplingSettings(SettingsModel):
    """The sampling that a server may request, and its limits.

    Args:
        enabled: Whether it may; a person is asked each time unless a rule says otherwise.
        model: The model that answers, as google-genai names it.
        max_tokens: How long an answer may be at most.
        calls_per_minute: How many times in any sixty seconds.
    """

    enabled: Switch = False
    model: Name | None = None
    max_tokens: Count = 1024
    calls_per_minute: Count = 10

    @model_validator(mode="after")
    def _needs_a_model(self) -> Self:
        if self.enabled and self.model is None:
            raise ValueError("sampling needs a model that answers: name one under 'model'")
        return self


class MCPToolConfiguration(ToolConfiguration):
    """The settings of one tool of a server.

    Args:
        name: What the tool is called here, exactly so, instead of what the server calls it.
        arguments: Arguments that are always these; the model does not set them, and sees them
            only where a question is about them. Rules are about them too. A tool that does not
            have them is left out.
    """

    name: Name | None = None
    arguments: Parameters = Field(default={}, repr=False)


MCPToolConfigurations: TypeAlias = Annotated[
    dict[str, Annotated[MCPToolConfiguration, BeforeValidator(mapping)]], BeforeValidator(mapping)
]


class MCPServerSettings(SettingsModel):
    """The settings of one MCP server: a command or an address, and what is used of it.

    As JSON, the values of `env` and `headers` are masked.

    Args:
        command: The program to start; it is spoken to over its standard input and output.
        args: Its arguments.
        env: Environment variables for it.
        cwd: The directory it starts in.
        url: The address of a server that runs already.
        transport: `stdio`, `http` (streamable) or `sse`; guessed from the other keys.
        headers: HTTP headers sent with every request.
        ca_file: A file of certificates to trust besides those of the system.
        auth: How to get a token, where the server asks for one.
        enabled: Whether the server is used.
        start: `eager` connects at once, `lazy` with the first call of one of its tools, which are
            known by then from an earlier session.
        timeout: How long the server may take to answer: seconds, or text such as `10s`.
        ping_every: How often a server that says nothing is asked whether it is still there; `0` or
            `off` for never.
        max_message_bytes: How long one message of the server may be; a longer one fails its call.
        max_tools: How many tools are taken from it, the first 10,000 if left out; `0` or `off` for
            all.
        prefix: What stands before the names of all its tools that are not named under `tools`, with
            `__` between; without it only a name that is taken gets the server's name there.
        include: The tools that are used, by the server's names for them or by patterns such as
            `read_*`; all when left out.
        exclude: The tools that are not.
        pin: What happens to a tool whose name, description or schema has changed since it was first
            used: `quarantine` refuses its calls until a person trusts it, `warn` only logs it. A
            tool that is added later is used, and logged; `include` keeps it out.
        untrusted: Whether the results of its tools may come from anyone, such as mail or web pages:
            they mark the session that reads them. A tool under `tools` may say otherwise.
        resources: Whether its resources can be listed and read as tools.
        prompts: Whether its prompts can be listed and used as tools.
        roots: The directories it is told it may work in.
        elicitation: Whether it may ask the person a question during a call.
        sampling: Whether it may ask a model of ours.
        log_level: What it is asked to log to us; `off` asks for nothing.
        tools: Settings of its tools, by the names the server gives them.
    """

    command: Name | None = Field(default=None, repr=False)
    args: tuple[str, ...] = Field(default=(), repr=False)
    env: Texts = Field(default={}, repr=False)
    cwd: Name | None = None
    url: Name | None = Field(default=None, repr=False)
    transport: Transport | None = None
    headers: Texts = Field(default={}, repr=False)
    ca_file: Name | None = None
    auth: OAuthSettings | None = None
    enabled: Switch = True
    start: Literal["eager", "lazy"] = "eager"
    timeout: OptionalTimeLimit = None
    ping_every: DurationOrOff = 30.0
    max_message_bytes: Count = 16_777_216
    max_tools: CountOrOff = 10_000
    prefix: Name | None = None
    include: Names | None = None
    exclude: Names = ()
    pin: Literal["quarantine", "warn", "off"] = "quarantine"
    untrusted: Switch = False
    resources: Switch = False
    prompts: Switch = False
    roots: Names = ()
    elicitation: Switch = True
    sampling: Annotated[SamplingSettings, BeforeValidator(mapping)] = (
        SamplingSettings.model_construct()
    )
    log_level: Literal["debug", "info", "warning", "error", "off"] = "warning"
    tools: MCPToolConfigurations = Field(default_factory=dict)
    _hidden: frozenset[str] = PrivateAttr(default=frozenset())

    def hide(self, values: Collection[str]) -> None:
        """Note which values of the environment it has: only the server may see them."""
        texts = (*self.env.values(), *self.headers.values(), *self.args, self.url or "")
        self._hidden = frozenset(each for each in values if any(each in text for text in texts))

    def secrets(self) -> tuple[str, ...]:
        """Return the values given to the server that its tools may not give back."""
        query = {} if self.url is None else dict(parse_qsl(urlsplit(self.url).query))
        named = {"env": self.env, "headers": self.headers, "query": query}
        told = {"args": self.args, "url": self.url}
        found = [*secrets_in(named, self._hidden), *secrets_in(told, self._hidden)]
        found += self._options()
        # Without `Bearer`: a server has the token, and not the header.
        found += [text.rpartition(" ")[2] for text in found]
        return tuple(dict.fromkeys([*found, *self._login()]))

    def credentials(self) -> Iterator[str]:
        """Yield what may be secret in the connection settings; no message shows it."""
        yield from self._hidden
        yield from self._options()
        for value in self.headers.values():
            yield value
            yield value.rpartition(" ")[2]  # without `Bearer`
        yield from self._login()
        if self.url is not None:
            yield from (value for _, value in parse_qsl(urlsplit(self.url).query))

    def _options(self) -> Iterator[str]:
        """Yield the values of such options as `--token`."""
        masked = without_secret_options(self.args)
        for argument, shown in zip(self.args, masked, strict=True):
            if shown == MASK:
                yield argument
            elif shown != argument:
                yield argument.partition("=")[2]

    def _login(self) -> Iterator[str]:
        if self.auth is not None and self.auth.client_secret is not None:
            yield self.auth.client_secret
        if self.url is not None:
            parts = urlsplit(self.url)
            yield from (text for text in (parts.username, parts.password) if text)
            yield from secrets_of_path(self.url)

    @field_serializer("env", "headers", when_used="json")
    def _keep_secret(self, values: dict[str, str]) -> dict[str, str]:
        return dict.fromkeys(values, "***")

    @model_validator(mode="before")
    @classmethod
    def _guess_transport(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or data.get("transport") is not None:
            return data
        if data.get("command") is not None:
            return {**data, "transport": "stdio"}
        is_sse = str(data.get("url") or "").partition("?")[0].rstrip("/").endswith("/sse")
        return {**data, "transport": "sse" if is_sse else "http"}

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("needs either a command to start or a url to connect to, not both")
        if (self.transport == "stdio") != (self.command is not None):
            raise ValueError("transport 'stdio' goes with a command, 'http' and 'sse' with a url")
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            raise ValueError("url must begin with http:// or https://")
        if self.url is not None and not _names_host(self.url):
            raise ValueError("url must name a host, as in https://example.org/mcp")
        unused = ("headers", "ca_file", "auth") if self.command else ("args", "env", "cwd")
        for key in unused:
            if getattr(self, key):
                raise ValueError(f"{key} does nothing with transport {self.transport!r}: remove it")
        return self


def _names_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets or a port that are none
        return False
