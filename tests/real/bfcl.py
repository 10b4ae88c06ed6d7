"""The Berkeley Function Calling Leaderboard as `bfcl-eval` ships it: cases, answers, live classes.

Its own dependencies are heavy and pinned; the parts used here need none of them but `mpmath`.
"""

import ast
import copy
import importlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fetched import fetched

_VERSION = "2026.3.23"

_JSON_TYPES = {
    "dict": "object",
    "float": "number",
    "tuple": "array",
    "String": "string",
    "Array": "array",
    "HashMap": "object",
    "long": "integer",
    "ArrayList": "array",
    "Boolean": "boolean",
    "double": "number",
    "char": "string",
}
_ANY_TYPE = ("any", "")


def folder() -> Path:
    """Return the folder to import `bfcl_eval` from, fetched unless the package is installed."""
    found = importlib.util.find_spec("bfcl_eval")
    if found is not None and found.origin is not None:
        return Path(found.origin).parents[1]
    install = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", ".")
    return fetched(f"bfcl-{_VERSION}", (*install, f"bfcl-eval=={_VERSION}", "mpmath"))


@dataclass(frozen=True, kw_only=True)
class GroundCall:
    """One call of the ground truth, such as `sort('final_report.pdf')`."""

    name: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]

    @classmethod
    def parse(cls, source: str) -> "GroundCall":
        """Reads the call without running it."""
        call = ast.parse(source, mode="eval").body
        assert isinstance(call, ast.Call)
        assert isinstance(call.func, ast.Name)
        return cls(
            name=call.func.id,
            args=[ast.literal_eval(value) for value in call.args],
            kwargs={word.arg or "": ast.literal_eval(word.value) for word in call.keywords},
        )

    def arguments(self, function: Callable[..., Any]) -> dict[str, Any]:
        """The arguments by name, as a model gives them."""
        return dict(inspect.signature(function).bind(*self.args, **self.kwargs).arguments)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A conversation of several turns over a few stateful classes."""

    id: str
    classes: Sequence[str]
    config: Mapping[str, Any]
    turns: Sequence[Sequence[GroundCall]]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One question: the functions on offer, and by name the argument values that are right."""

    id: str
    functions: Sequence[Mapping[str, Any]]
    question: str = ""
    answers: Sequence[tuple[str, Mapping[str, Sequence[Any]]]] = ()


class Bfcl:
    """The dataset; `folder()` must be importable.

    Args:
        folder: Where `bfcl_eval` is.
    """

    def __init__(self, folder: Path) -> None:
        self._data = folder / "bfcl_eval" / "data"
        self._backend = importlib.import_module("bfcl_eval.constants.executable_backend_config")

    def scenarios(self) -> Iterator[Scenario]:
        """The base set of the multi-turn scenarios."""
        truths = {row["id"]: row["ground_truth"] for row in self._answers("multi_turn_base")}
        for row in self._rows("multi_turn_base"):
            yield Scenario(
                id=row["id"],
                classes=row["involved_classes"],
                config=row["initial_config"],
                turns=[[GroundCall.parse(call) for call in turn] for turn in truths[row["id"]]],
            )

    def instances(self, scenario: Scenario) -> dict[str, Any]:
        """New instances of the scenario's classes, in their first state."""
        return {name: self._instance(name, scenario.config) for name in scenario.classes}

    def documents(self, class_name: str) -> dict[str, Mapping[str, Any]]:
        """What the dataset tells a model about the methods of a class, by their names."""
        file = self._backend.MULTI_TURN_FUNC_DOC_FILE_MAPPING[class_name]
        rows = _read(self._data / "multi_turn_func_doc" / file)
        return {row["name"]: row for row in rows}

    def cases(self, name: str) -> Iterator[Case]:
        """The cases of a single-turn set, with their answers where it has any."""
        answers = {row["id"]: row["ground_truth"] for row in self._answers(name)}
        for row in self._rows(name):
            found = [pair for answer in answers.get(row["id"], ()) for pair in answer.items()]
            said = [each["content"] for each in row["question"][0] if each["role"] == "user"]
            yield Case(
                id=row["id"], functions=row["function"], question=" ".join(said), answers=found
            )

    def _instance(self, class_name: str, config: Mapping[str, Any]) -> Any:
        module = importlib.import_module(self._backend.CLASS_FILE_PATH_MAPPING[class_name])
        instance = getattr(module, class_name)()
        if class_name not in self._backend.STATELESS_CLASSES:
            instance._load_scenario(copy.deepcopy(config.get(class_name, {})))
        return instance

    def _rows(self, name: str) -> list[dict[str, Any]]:
        return _read(self._data / f"BFCL_v4_{name}.json")

    def _answers(self, name: str) -> list[dict[str, Any]]:
        path = self._data / "possible_answer" / f"BFCL_v4_{name}.json"
        return _read(path) if path.exists() else []


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def methods(instance: Any) -> dict[str, Callable[..., Any]]:
    """The public methods of an instance, by name."""
    found = inspect.getmembers(instance, inspect.ismethod)
    return {name: method for name, method in found if not name.startswith("_")}


def json_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The dataset's schema in the words of JSON Schema.

    Its types are those of other languages, and a default of "None" is Python's `None`: none.
    """
    translated: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "type":
            translated |= {} if value in _ANY_TYPE else {"type": _JSON_TYPES.get(value, value)}
        elif key == "properties":
            translated[key] = {name: json_schema(inner) for name, inner in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            translated[key] = json_schema(value)
        elif (key, value) != ("default", "None"):
            translated[key] = value
    return translated
