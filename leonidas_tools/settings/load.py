"""Load `Settings` from a YAML file or a mapping; errors name the file, line and key."""

from __future__ import annotations

import os
import re
import sys
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.files.reading import read_file, why_unreadable
from leonidas_tools.redaction import KnownSecrets, is_secret_name
from leonidas_tools.redaction.visible import visible_logger
from leonidas_tools.settings.explain import explain, place, takes_null
from leonidas_tools.settings.models import Settings
from leonidas_tools.settings.problem import (
    EMPTY,
    DocumentError,
    Finding,
    KeyLines,
    KeyPath,
    Problem,
    SettingsDocument,
)

logger = visible_logger(__name__)
Source: TypeAlias = str | Path | Mapping[str, Any] | Settings | None
ENVIRONMENT_VARIABLE = "LEONIDAS_ENV"
INTERPRETER_VARIABLE = "LEONIDAS_PYTHON"
TEXTS = "texts"
FOREIGN = "mcpServers"
"""The key under which other programs list MCP servers."""
_MIN_OPAQUE_LENGTH = 8
_TELLING_NAME = "the name of a server contains one of its secrets, and is shown: choose another"
_VARIABLE = r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})?"


def load(source: Source) -> Settings:
    """Read settings.

    `${NAME}` and `${NAME:-default}` in text are replaced by environment variables, and the
    variable `LEONIDAS_ENV` overrides `environment`. If `LEONIDAS_PYTHON` is not set, its value is
    the running interpreter. A `Settings` object is returned unchanged.

    Raises:
        ConfigurationError: The settings are invalid. The message names every problem with its
            place; the attributes are those of the first.

    Example:
        >>> load({"tools": {"search": {"tiemout": 5}}})
        Traceback (most recent call last):
        ...
        leonidas_tools.errors.ConfigurationError: tools.search.tiemout: is not a setting; did you \
mean 'timeout'?
    """
    if isinstance(source, Settings):
        return source
    if source is None or isinstance(source, Mapping):
        return _validate(SettingsDocument(data=dict(source or {})), None)
    if not isinstance(source, str | Path):
        raise TypeError(
            "config must be the path of a YAML file, a mapping, Settings or None, not "
            f"{type(source).__name__}: such as config='tools.yaml'"
        )
    path = Path(source)
    return read_settings(read_text(path), path)


def read_text(path: Path) -> str:
    """Return the text of a settings file.

    Raises:
        ConfigurationError: The file is missing, unreadable, not a regular file, too large, or not
            text.
    """
    try:
        content = read_file(path)
    except OSError as error:
        raise ConfigurationError(why_unreadable(error), file=path) from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = "is not UTF-8 text: save it in that encoding"
        raise ConfigurationError(message, file=path, line=line) from None


def read_settings(text: str, file: Path | None = None) -> Settings:
    """Read settings from YAML text.

    Raises:
        ConfigurationError: The settings are invalid.
    """
    try:
        document = settings_document(text)
    except DocumentError as error:
        problem = error.problem
    else:
        if isinstance(document.data, dict):
            return _validate(document, file)
        # An empty file may be a truncated write, and must not mean "all defaults".
        problem = Problem("is empty: write at least 'version: 1'")
        if document.data is not None:
            problem = Problem("should be a mapping: keys such as 'tools:', each with its value")
    raise configuration_error([problem], SettingsDocument(), file)


def settings_document(text: str) -> SettingsDocument:
    """Parse the YAML text of settings; a `null` where it is no value is a problem.

    Raises:
        DocumentError: The text is not YAML, or is nested too deeply or too large.
    """
    from leonidas_tools.settings.document import read_document

    document = read_document(text)
    document.problems.extend(
        Problem(EMPTY, path) for path in document.nulls if path and not takes_null(path)
    )
    return document


def _validate(document: SettingsDocument, file: Path | None) -> Settings:
    settings, problems = _check_document(document, file)
    if settings is not None and not problems:
        return settings
    # Raised outside of `except`: chained to pydantic's error, it would contain the values.
    raise configuration_error(problems, document, file)


def _check_document(
    document: SettingsDocument, file: Path | None
) -> tuple[Settings | None, list[Problem]]:
    """Return the settings, or `None` if they cannot be validated, and the problems."""
    taken, foreign_problems = _move_foreign_servers(document.data, file)
    expansion = Expansion(ChainMap(os.environ, {INTERPRETER_VARIABLE: sys.executable}))
    data = expansion.expand({key: taken[key] for key in taken if key != TEXTS})
    if TEXTS in taken:  # read by models, so without environment variables
        data[TEXTS] = taken[TEXTS]
    if environment := os.environ.get(ENVIRONMENT_VARIABLE):
        data["environment"] = environment
    problems = [*document.problems, *foreign_problems, *expansion.problems]
    missing = {problem.path for problem in problems}
    try:
        settings = Settings.model_validate(data)
    except ValidationError as error:
        found = [explain(detail, expansion.secret) for detail in error.errors(include_url=False)]
        problems += [each for each in found if each.path not in missing]
        masked = KnownSecrets(expansion.values).text
        return None, [replace(each, message=masked(each.message)) for each in problems]
    settings.written.update(expansion.written)
    settings.hidden.update(expansion.values)
    credentials = [
        value
        for value, variable in expansion.values.items()
        if is_secret_name(variable) and len(value) >= _MIN_OPAQUE_LENGTH
    ]
    for name, server in settings.mcp_servers.items():
        server.hide(expansion.values)
        if any(secret in name for secret in (*credentials, *server.named_secrets())):
            path = ("mcp_servers", name)
            line = place(path, document.lines) or place((FOREIGN, name), document.lines)
            problems.append(Problem(_TELLING_NAME, path[:1], line))
    return settings, problems


def _move_foreign_servers(data: Any, file: Path | None) -> tuple[Any, list[Problem]]:
    """Move the servers under `mcpServers` to `mcp_servers`; return the data and the problems."""
    if not isinstance(data, Mapping) or not isinstance(data.get(FOREIGN), Mapping):
        return data, []
    from leonidas_tools.settings.foreign_servers import foreign_servers

    found = foreign_servers({FOREIGN: data[FOREIGN]}, file.resolve().parent if file else None)
    for note in found.notes:
        logger.warning("%s: %s", FOREIGN, note)
    own = data.get("mcp_servers") or {}
    problems = [Problem(why, (FOREIGN, name)) for name, why in found.refused.items()]
    if not isinstance(own, Mapping):
        return data, problems
    problems += [
        Problem("is also under 'mcp_servers': remove one", (FOREIGN, name))
        for name in found.servers.keys() & own.keys()
    ]
    rest = {key: value for key, value in data.items() if key != FOREIGN}
    return {**rest, "mcp_servers": {**found.servers, **own}}, problems


def refusal(findings: Sequence[Finding], text: str | None, file: Path | None) -> ConfigurationError:
    """Return findings about valid settings as one error that names their lines.

    Args:
        findings: At least one.
        text: The YAML text of the settings, if there is one.
        file: The file of the text.
    """
    from leonidas_tools.settings.document import read_document

    lines = KeyLines({} if text is None else read_document(text).lines)
    problems = [
        Problem(finding.message, tuple(finding.key.split(".")), lines.of(finding.key))
        for finding in findings
    ]
    return configuration_error(problems, SettingsDocument(), file)


def configuration_error(
    problems: Sequence[Problem], document: SettingsDocument, file: Path | None
) -> ConfigurationError:
    """Return all problems as one error with the attributes of the first in the file."""
    errors = [
        ConfigurationError(
            problem.message,
            file=file,
            line=problem.line or place(problem.path, document.lines),
            key=".".join(map(str, problem.path)) or None,
        )
        for problem in problems
    ]
    first, *more = sorted(errors, key=lambda error: error.line or 0)
    message = "\n".join([first.message, *map(str, more)])
    return ConfigurationError(
        message, file=first.file, line=first.line, key=first.key, problems=[first, *more]
    )


class Expansion:
    """Replaces variables in plain data, and records where.

    Example:
        >>> expansion = Expansion({"HOST": "example.org"})
        >>> expansion.expand({"url": "https://${HOST}:${PORT:-443}", "text": "$${HOST}"})
        {'url': 'https://example.org:443', 'text': '${HOST}'}
        >>> expansion.secret
        {('url',)}
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.secret: set[KeyPath] = set()
        """Paths of values that came from the environment: no message may show them."""
        self.written: dict[str, str] = {}
        """The text with variables, as written, by the text with their values."""
        self.values: dict[str, str] = {}
        """The variables of values that may be secret, by themselves or by the variable's name."""
        self.problems: list[Problem] = []

    def expand(self, value: Any, path: KeyPath = ()) -> Any:
        """Return the same data with every variable replaced; collections are copied."""
        if isinstance(value, str):
            return self._text(value, path) if "${" in value else value
        if isinstance(value, Mapping):
            return {key: self.expand(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.expand(item, (*path, index)) for index, item in enumerate(value)]
        return value

    def _text(self, text: str, path: KeyPath) -> str:
        def replace(match: re.Match[str]) -> str:
            if match[0] == "$${":
                return "${"
            name, default = match[1], match[2]
            if name is None:
                self._refuse("write ${NAME}, ${NAME:-default}, or $${ for a plain ${", path)
                return match[0]
            self.secret.add(path)
            value = self._environ.get(name)
            if value and (is_secret_name(name) or _is_opaque(value)):
                self.values[value] = name
            if default is not None:
                return value or default
            if value is None:
                self._refuse(
                    f"the environment variable {name!r} is not set: "
                    f"set it, or write ${{{name}:-default}}",
                    path,
                )
            return value or ""

        expanded = re.sub(_VARIABLE, replace, text)
        if path in self.secret:
            self.written[expanded] = text
        return expanded

    def _refuse(self, message: str, path: KeyPath) -> None:
        self.problems.append(Problem(message, path))


def _is_opaque(value: str) -> bool:
    """Return whether a value is long and unusual enough not to occur in ordinary text."""
    return len(value) >= _MIN_OPAQUE_LENGTH and not value.isalpha()
