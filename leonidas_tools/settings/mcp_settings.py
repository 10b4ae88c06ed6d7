"""Settings of MCP servers."""

import shlex
import shutil
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal, Self, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    field_serializer,
    model_validator,
)

from leonidas_tools.redaction import MASK, secrets_in, texts_in
from leonidas_tools.redaction.addresses import secrets_of_path
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.settings.fields import (
    Count,
    Duration,
    DurationOrOff,
    LimitOrOff,
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
from leonidas_tools.settings.model import MaskedSettings, SettingsModel
from leonidas_tools.settings.shown import mask_secret_options
from leonidas_tools.settings.tool_configuration import ToolConfiguration

logger = visible_logger(__name__)

_MAX_NAME_LENGTH = 100
_MIN_CREDENTIAL_LENGTH = 8
_DEPRECATED = frozenset({"sampling", "roots", "log_level"})


def _server_name(name: str) -> str:
    fits = 0 < len(name) <= _MAX_NAME_LENGTH and name.isprintable()
    if not fits or name != name.strip() or name.startswith("-"):
        raise ValueError(
            f"is not a valid server name: a name has 1 to {_MAX_NAME_LENGTH} visible characters, "
            "no space at its ends and no '-' at its beginning"
        )
    return name


ServerName = Annotated[str, AfterValidator(_server_name)]
"""A name that is readable in messages, and that can be typed in commands and used as a key."""


class OAuthSettings(SettingsModel):
    """The login at a server over HTTP.

    As JSON, the secret is masked.

    Args:
        grant: `client_credentials` for a program with its own account, or `authorization_code` for
            a person who logs in with the browser, once.
        client_id: The client's id. If omitted with `authorization_code`, the client names itself by
            `client_metadata_url` or is registered, as the authorization server allows.
        client_metadata_url: The HTTPS address of your Client ID Metadata Document, which is the
            client's id at authorization servers that take one. Its `redirect_uris` must have
            `http://127.0.0.1/callback`.
        client_secret: The client's secret.
        issuer: The authorization server of the client, such as `https://login.example.org`. The
            secret is sent to no other server. If omitted, it is the one that the server names,
            unless that is unencrypted or closer to this machine than the server.
        scopes: The scopes to request; those that the server suggests, if omitted.
        callback_port: The port on this machine to which the browser returns; any free port, if
            omitted.
        login_timeout: How long a person may take to log in.
    """

    grant: Literal["client_credentials", "authorization_code"] = "authorization_code"
    client_id: Name | None = None
    client_metadata_url: Name | None = None
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
        if self.client_metadata_url is not None:
            parts = urlsplit(self.client_metadata_url)
            if parts.scheme != "https" or not parts.hostname or parts.path in {"", "/"}:
                raise ValueError(
                    "client_metadata_url must be an https:// address with a path, such as "
                    "https://example.org/client.json"
                )
            if self.client_id is not None:
                raise ValueError("client_metadata_url has no effect beside client_id: remove one")
        return self


class MCPToolConfiguration(ToolConfiguration):
    """The settings of one tool of a server.

    Args:
        name: The exact name of the tool here, instead of the server's name for it.
        arguments: Arguments with fixed values. The model does not set them, and sees them only in
            approval questions. Rules apply to them too. A tool without these parameters is
            omitted.
    """

    name: Name | None = None
    arguments: Parameters = Field(default={}, repr=False)


MCPToolConfigurations: TypeAlias = Annotated[
    dict[str, Annotated[MCPToolConfiguration, BeforeValidator(mapping)]], BeforeValidator(mapping)
]


class MCPServerSettings(MaskedSettings):
    """The settings of one MCP server: a command or a URL, and the use of its features.

    As JSON, the values of `env` and `headers` are masked.

    Args:
        command: The program to start, with messages over its standard input and output.
        args: The arguments of the program.
        env: Environment variables of the program.
        cwd: The working directory of the program.
        url: The URL of a running server.
        transport: `stdio`, `http` (streamable) or `sse`; derived from the other keys, if omitted.
        headers: HTTP headers sent with every request.
        ca_file: A file of certificates to trust besides those of the system.
        auth: How to get a token, if the server requires one.
        enabled: Whether the server is used.
        start: `eager` connects at once. `lazy` connects at the first call of one of its tools,
            which are known from an earlier session.
        timeout: How long the server may take to respond: seconds, or text such as `10s`.
        ping_every: The interval of health checks of a silent server; `0` or `off` for never.
        max_message_bytes: The maximum bytes of a message of the server; a longer one fails its
            call.
        max_tools: The maximum number of its tools that are used: the first ones, 10,000 if
            omitted; `0` or `off` for all.
        prefix: A prefix for the names of all its tools that are not named under `tools`, followed
            by `__`. Without it, only a name that is taken gets the server's name as prefix.
        include: The tools that are used, by the server's names or by patterns such as `read_*`;
            all, if omitted.
        exclude: The tools that are not used.
        pin: What happens to a tool whose name, description or schema has changed since its first
            use: `quarantine` refuses its calls until a person trusts it, `warn` only logs it. A
            tool that is added later is used, and logged; `include` excludes it.
        untrusted: Whether the results of its tools may come from anyone, such as mail or web pages:
            they mark the session that reads them. A tool under `tools` may override this.
        resources: Whether its resources can be listed and read as tools.
        prompts: Whether its prompts can be listed and used as tools.
        elicitation: Whether the server may ask the person a question during a call.
        tools: Settings of its tools, by the server's names.
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
    max_tools: LimitOrOff = 10_000
    prefix: Name | None = None
    include: Names | None = None
    exclude: Names = ()
    pin: Literal["quarantine", "warn", "off"] = "quarantine"
    untrusted: Switch = False
    resources: Switch = False
    prompts: Switch = False
    elicitation: Switch = True
    tools: MCPToolConfigurations = Field(default_factory=dict)

    def hide(self, values: Collection[str]) -> None:
        """Record the values of the environment in these settings: only the server may see them."""
        texts = list(texts_in(self.model_dump()))
        self._hidden = {each for each in values if any(each in text for text in texts)}

    def named_secrets(self) -> Iterator[str]:
        """Yield the secrets by their names, such as `API_KEY` in `env`, if they are long."""
        values = secrets_in({"env": self.env, "headers": self.headers})
        parts = (part for value in values for part in value.split())
        yield from (each for each in parts if len(each) >= _MIN_CREDENTIAL_LENGTH)

    def secrets(self) -> tuple[str, ...]:
        """Return the secret values that the server gets, which its tools must not return."""
        query = {} if self.url is None else dict(parse_qsl(urlsplit(self.url).query))
        named = {"env": self.env, "headers": self.headers, "query": query}
        unnamed = {"args": self.args, "url": self.url}
        found = [*secrets_in(named, self._hidden), *secrets_in(unnamed, self._hidden)]
        found += self._options()
        # Without `Bearer`: a server may return the token without the rest of the header.
        found += [text.rpartition(" ")[2] for text in found]
        return tuple(dict.fromkeys([*found, *self._login()]))

    def credentials(self) -> Iterator[str]:
        """Yield the values of the connection settings that may be secret, to mask them."""
        yield from self._hidden
        yield from self._options()
        for value in self.headers.values():
            yield value
            yield value.rpartition(" ")[2]  # without `Bearer`
        yield from self._login()
        if self.url is not None:
            yield from (value for _, value in parse_qsl(urlsplit(self.url).query))

    def _options(self) -> Iterator[str]:
        """Yield the values of secret options, such as `--token`."""
        masked = mask_secret_options(self.args)
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
        if not isinstance(data, Mapping):
            return data
        for key in sorted(_DEPRECATED & data.keys()):
            logger.warning("%r has no effect, because MCP has deprecated it: remove the line", key)
        data = split_command({key: data[key] for key in data if key not in _DEPRECATED})
        if data.get("transport") is not None:
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
                raise ValueError(
                    f"{key} has no effect with transport {self.transport!r}: remove it"
                )
        return self


def split_command(server: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a server whose `command` is one program, with the rest of a command line in `args`.

    Many programs accept a command line, as a text or as a list. The path of a program may have
    spaces. What is in `args` is masked as arguments are, also if there is no such program.

    Example:
        >>> split_command({"command": ["npx", "-y", "notes"]})
        {'command': 'npx', 'args': ['-y', 'notes']}
    """
    command, args = server.get("command"), server.get("args") or ()
    words: Any = command
    if isinstance(command, str) and shutil.which(command) is None:
        try:
            words = shlex.split(command)
        except ValueError:  # a quotation mark without its pair
            return server
    if not isinstance(words, list) or not words or not isinstance(args, list | tuple):
        return server
    if words == [command]:
        return server
    return {**server, "command": words[0], "args": [*words[1:], *args]}


def _names_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:  # invalid brackets or port
        return False
