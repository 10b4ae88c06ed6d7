"""Load a `Scenario` from YAML; errors name the file, the line, the key and the closest name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

from leonidas_tools.errors import ConfigurationError
from leonidas_tools.files.reading import read_file, why_unreadable
from leonidas_tools.files.yaml_faults import yaml_fault
from leonidas_tools.simulator.audio import read_wav
from leonidas_tools.simulator.function_call import FunctionCall
from leonidas_tools.simulator.generations import GENERATIONS
from leonidas_tools.simulator.scenario import Scenario
from leonidas_tools.simulator.steps import (
    STEPS,
    Call,
    Cancel,
    Expect,
    Say,
    Send,
    WaitForAnswers,
)
from leonidas_tools.simulator.template import quoted_ids

if TYPE_CHECKING:
    from pathlib import Path

    from leonidas_tools.simulator.steps import Step

T = TypeVar("T")
_KEYS = ("name", "description", "generation", "needs", "steps", "connections")
_OF_SETTINGS = frozenset({"toolboxes", "tools", "policies", "defaults", "mcp_servers"})
_STATUSES = (
    "ok",
    "no_results",
    "invalid_argument",
    "not_found",
    "disabled",
    "denied",
    "pending_approval",
    "timeout",
    "unknown_outcome",
    "unavailable",
    "failed",
    "cancelled",
    "loop",
    "limited",
)
"""Values of `status` in an answer of this package; copied, to import none of its runtime."""
_MEANT = {
    "user": "input_transcription",
    "text": "input_transcription",
    "model": "say",
    "result": "response",
    "wait": "pause",
    "sleep": "pause",
    "delay": "pause",
    "user_says": "input_transcription",
    "listen": "wait_for_input",
    "speak": "say",
    "function_call": "call",
    "tool_call": "call",
    "check": "expect",
    "assert": "expect",
    "answer": "expect",
    "barge_in": "interrupt",
    "disconnect": "drop",
    "reconnect": "go_away",
    "done": "turn_complete",
    "end": "turn_complete",
    "end_turn": "turn_complete",
}
"""Keys that users write by mistake, and the keys that they mean."""
Key: TypeAlias = tuple[str | int, ...]


def load_scenario(file: Path) -> Scenario:
    """Read a scenario from a YAML file.

    Raises:
        ConfigurationError: The file cannot be read, or something in it is wrong.
    """
    source = YamlSource.read(file)
    data = source.data
    if not isinstance(data, dict):
        todo = ": write `steps:` above the list" if isinstance(data, list) else ""
        source.refuse(f"A scenario must be a mapping with `steps` or `connections`{todo}")
    if not data.keys() & set(_KEYS) and data.keys() & _OF_SETTINGS:
        source.refuse(
            f"These are settings, not a scenario: play one with `--config {source.file.name}`"
        )
    _refuse_unknown(source, data, _KEYS, ())
    if ("steps" in data) == ("connections" in data):
        source.refuse("A scenario must have either `steps` or `connections`")
    about = _about(source, data)
    if "steps" in data:
        return Scenario(_steps(source, data["steps"], ("steps",)), **about)
    connections = data["connections"]
    if not isinstance(connections, list) or not connections:
        source.refuse("`connections` must be a list with a list of steps for each", "connections")
    scripts = [
        _steps(source, steps, ("connections", index)) for index, steps in enumerate(connections)
    ]
    return Scenario(connections=scripts, **about)


def _about(source: YamlSource, data: Mapping[str, Any]) -> dict[str, Any]:
    generation = data.get("generation")
    # YAML reads a bare 3.1 as a number.
    name = None if generation is None else str(generation)
    if name is not None and name not in GENERATIONS:
        known = ", ".join(GENERATIONS)
        source.refuse(f"There is no generation {name!r}; choose from {known}", "generation")
    return {
        "name": str(data.get("name", source.file.stem)),
        "description": str(data.get("description", "")),
        "generation": name,
        "needs": str(data.get("needs", "")),
    }


def _steps(source: YamlSource, items: Any, key: Key) -> tuple[Step, ...]:
    if not isinstance(items, list):
        source.refuse("Steps must be a list", *key)
    if not items:
        source.refuse("There are no steps: nothing would be played; begin with `say: Hello.`", *key)
    steps = tuple(_step(source, item, (*key, index)) for index, item in enumerate(items))
    _check_ids(source, steps, key)
    return steps


def _step(source: YamlSource, item: Any, key: Key) -> Step:
    if isinstance(item, str):
        item = {item: None}
    if not isinstance(item, dict) or len(item) != 1:
        source.refuse("A step must be a name, or a mapping of one name to its value", *key)
    _refuse_unknown(source, item, STEPS, key)
    ((name, value),) = item.items()
    kind, key = STEPS[name], (*key, name)
    if kind is Call:
        value = _calls(source, value, key)
    names = [each.name for each in fields(kind)]
    if value is not None and not isinstance(value, Mapping) and not _short(kind):
        options = f", or a mapping with {', '.join(names)}" if names else ""
        source.refuse(f"This step has no value; write only its name{options}", *key)
    values = _values(kind, value)
    _refuse_unknown(source, values, names, key)
    if isinstance(values.get("audio"), str):
        values["audio"] = _recording(source, values["audio"], (*key, "audio"))
    step = _validate(source, kind, values, key)
    _check_values(source, step, key)
    return step


def _check_values(source: YamlSource, step: Step, key: Key) -> None:
    if isinstance(step, Expect):
        _refuse_unknown_status(source, step.status, key)
    if isinstance(step, Say):
        try:
            quoted_ids(step.text)
        except ValueError as error:
            source.refuse(str(error), *key)


def _refuse_unknown_status(source: YamlSource, status: str | None, key: Key) -> None:
    if status is None or status in _STATUSES:
        return
    close = get_close_matches(status.lower(), _STATUSES, n=1)
    hint = f"did you mean {close[0]!r}? Choose" if close else "choose"
    source.refuse(
        f"There is no status {status!r}; {hint} from {', '.join(_STATUSES)}; "
        "the status of another program's answer goes into `response`",
        *key,
        "status",
    )


def _recording(source: YamlSource, name: str, key: Key) -> Path:
    file = source.file.parent / name
    try:
        read_wav(file)
    except ValueError as error:
        source.refuse(str(error), *key)
    return file


def _calls(source: YamlSource, value: Any, key: Key) -> dict[str, Any]:
    """Return the fields of a `call` step: one call, a list of calls, or `calls` with options."""
    if isinstance(value, dict) and "calls" in value:
        key, body = (*key, "calls"), value
    else:
        body = {"calls": value}
    single = not isinstance(body["calls"], list)
    calls = [body["calls"]] if single else body["calls"]
    names = [each.name for each in fields(FunctionCall)]
    for index, call in enumerate(calls):
        place = key if single else (*key, index)
        if not isinstance(call, dict):
            source.refuse(
                "A call must be a mapping with `name` and, as needed, `id` and `args`", *place
            )
        _refuse_unknown(source, call, names, place)
        _validate(source, FunctionCall, call, place)
    return {**body, "calls": calls}


def _short(kind: type[Step]) -> bool:
    """Return whether a step may be written with the value of its first field alone."""
    return any(not each.kw_only for each in fields(kind)[:1])


def _values(kind: type[Step], value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if isinstance(value, Mapping) and not kind.mapping_is_value:
        return dict(value)
    name = fields(kind)[0].name
    if name == "ids" and not isinstance(value, list):
        value = [value]
    return {name: value}


def _validate(source: YamlSource, kind: type[T], values: Any, key: Key) -> T:
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = _known_part(values, first["loc"])
        missing = first["type"] in {"missing", "missing_argument"}
        text = f"{first['loc'][-1]!r} is missing" if missing else first["msg"]
        if first["type"] == "string_type":  # YAML reads a bare `yes` or `12` as another type
            text = f"{first['input']!r} should be text: put it in quotes"
        if first["type"] == "float_parsing":
            text = f"{first['input']!r} should be a number, such as 2 or 0.5, without a unit"
        source.refuse(text, *key, *place)


def _known_part(values: Any, place: Key) -> Key:
    """Return the part of a location that exists in the data; pydantic adds the types it tried."""
    known: list[str | int] = []
    for part in place:
        try:
            values = values[part]
        except (LookupError, TypeError):
            break
        known.append(part)
    return tuple(known)


def _refuse_unknown(
    source: YamlSource, found: Iterable[Any], known: Iterable[str], key: Key
) -> None:
    names = list(known)
    for name in found:
        if name in names:
            continue
        meant = [each for each in (_MEANT.get(str(name)),) if each in names]
        close = meant or get_close_matches(str(name), names, n=1)
        hint = f"did you mean {close[0]!r}? Choose" if close else "choose"
        allowed = ", ".join(names)
        source.refuse(f"{name!r} is not known here; {hint} from {allowed}", *key, str(name))


def _check_ids(source: YamlSource, steps: tuple[Step, ...], key: Key) -> None:
    """Refuse ids that no call has, unless raw messages may contain such calls."""
    if any(isinstance(step, Send) for step in steps):
        return
    calls = [call for step in steps if isinstance(step, Call) for call in step.calls]
    known = [call.id_for(number) for number, call in enumerate(calls, start=1)]
    for index, step in enumerate(steps):
        for call_id in _ids_of(step):
            if call_id not in known:
                close = get_close_matches(call_id, filter(None, known), n=1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                if isinstance(step, Expect) and call_id in _STATUSES:
                    hint = f": write `expect: {{id: …, status: {call_id}}}`"
                source.refuse(f"No call has the id {call_id!r}{hint}", *key, index)


def _ids_of(step: Step) -> Iterable[str]:
    if isinstance(step, WaitForAnswers | Cancel):
        return step.ids
    if isinstance(step, Expect):
        return (step.id,)
    return quoted_ids(step.text) if isinstance(step, Say) else ()


@dataclass(frozen=True, kw_only=True, slots=True)
class YamlSource:
    """The data of a YAML file, with the line of each value, counted from 1, by its path."""

    file: Path
    data: Any
    lines: dict[Key, int]

    @classmethod
    def read(cls, file: Path) -> YamlSource:
        """Read a file.

        Raises:
            ConfigurationError: The file cannot be read, or is not YAML.
        """
        try:
            text = read_file(file).decode("utf-8-sig")
        except OSError as error:
            raise ConfigurationError(why_unreadable(error), file=file) from None
        except UnicodeDecodeError:
            message = "is not UTF-8 text: save it in that encoding"
            raise ConfigurationError(message, file=file) from None
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            data = None if node is None else loader.construct_document(node)
        except yaml.YAMLError as error:
            fault, line = yaml_fault(error, text)
            raise ConfigurationError(f"This is not YAML: {fault}", file=file, line=line) from None
        finally:
            loader.dispose()
        lines: dict[Key, int] = {}
        if node is not None:
            _locate(node, (), lines, frozenset())
        return cls(file=file, data=data, lines=lines)

    def refuse(self, message: str, *key: str | int) -> NoReturn:
        """Raise a `ConfigurationError` that names the file, the line and the key."""
        place = key
        while place and place not in self.lines:
            place = place[:-1]
        line = self.lines.get(place)
        raise ConfigurationError(message, file=self.file, line=line, key=_dotted(key) or None)


def _locate(node: yaml.Node, key: Key, lines: dict[Key, int], above: frozenset[int]) -> None:
    lines.setdefault(key, node.start_mark.line + 1)
    if id(node) in above:  # an anchor inside itself
        return
    above |= {id(node)}
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            lines[(*key, str(name.value))] = name.start_mark.line + 1
            _locate(value, (*key, str(name.value)), lines, above)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _locate(value, (*key, index), lines, above)


def _dotted(key: Key) -> str:
    """Return a path as text.

    Example:
        >>> _dotted(("steps", 3, "call", "args"))
        'steps[3].call.args'
    """
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key)
    return text.removeprefix(".")
