"""Run one piece of Python in the sandbox: a separate program, with the standard library only.

It reads a request from file descriptor 3, and sends the response there, as lines: the value of the
last expression, the error and the new files as JSON, the variables for the next piece, and each
figure in Base64. Imports, functions and classes are kept as source code, other values as pickles,
which only this program reads.
"""

from __future__ import annotations

import ast
import base64
import builtins
import contextlib
import io
import json
import linecache
import os
import pickle
import socket
import sys
import traceback
from typing import Any

NAME = "<code>"
_MAX_VALUE_LENGTH = 20_000
MAX_FIGURES = 8
MAX_FIGURE_BYTES = 4 << 20
_MAX_FILES = 10_000
_MAX_FILES_TOLD = 100
_MAX_NOT_KEPT = 20
_DEFINITIONS = (
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.FunctionDef,
    ast.Import,
    ast.ImportFrom,
)


def main() -> None:
    """Read the request, run its code, and send the response."""
    channel = socket.socket(fileno=3)
    os.set_inheritable(3, False)
    request = json.loads(_read_all(channel))
    lines = _answer(request)
    sys.stdout.flush()
    sys.stderr.flush()
    channel.sendall("".join(f"{line}\n" for line in lines).encode())
    channel.close()
    os._exit(0)  # without waiting for threads or running exit handlers


def _read_all(channel: socket.socket) -> bytes:
    data = bytearray()
    while chunk := channel.recv(1 << 20):
        data += chunk
    return bytes(data)


def _answer(request: dict[str, Any]) -> list[str]:
    before = _files()
    names: dict[str, Any] = {"__name__": "__main__", "__builtins__": builtins}
    definitions = _load(names, request["state"])
    answer: dict[str, Any] = {}
    state, figures = "", list[str]()
    try:
        tree = ast.parse(request["code"], NAME)
        lines = [f"{line}\n" for line in request["code"].splitlines()]
        linecache.cache[NAME] = (len(request["code"]), None, lines, NAME)
        answer.update(_run(tree, names))
        definitions += [ast.unparse(each) for each in tree.body if isinstance(each, _DEFINITIONS)]
    except BaseException as error:  # noqa: BLE001 - the code may raise anything
        answer["error"] = _error(error)
    with contextlib.suppress(Exception):
        figures = _figures()
    answer["files"] = _new_files(before)
    if request["keep"]:
        state, answer["not_kept"] = _save(names, definitions)
        if len(state) > request["most_kept"]:
            state, answer["not_kept"] = "", ["*"]
    return [json.dumps(answer), state, *figures]


def _run(tree: ast.Module, names: dict[str, Any]) -> dict[str, Any]:
    """Run the statements, and return the value of the last one if it is an expression."""
    last = tree.body[-1] if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    statements = ast.Module(body=tree.body[: -1 if last else None], type_ignores=[])
    exec(compile(statements, NAME, "exec"), names)  # noqa: S102 - the purpose of the program
    if not isinstance(last, ast.Expr):
        return {}
    value = eval(compile(ast.Expression(last.value), NAME, "eval"), names)  # noqa: S307 - as above
    return {} if value is None else {"value": _to_json(value)}


def _to_json(value: Any) -> Any:
    """Return a value as JSON; as text if it is not JSON or is too long."""
    with contextlib.suppress(TypeError, ValueError, RecursionError):
        text = json.dumps(value, allow_nan=False)
        if len(text) <= _MAX_VALUE_LENGTH:
            return json.loads(text)
    text = repr(value)
    half = _MAX_VALUE_LENGTH // 2
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[:half]} […] {text[-half:]}"


def _error(error: BaseException) -> dict[str, str]:
    report = traceback.TracebackException.from_exception(error, limit=-20)
    ours = [index for index, frame in enumerate(report.stack) if frame.filename == NAME]
    report.stack = traceback.StackSummary.from_list(list(report.stack)[ours[0] :] if ours else [])
    said = "".join(report.format())[-_MAX_VALUE_LENGTH:]
    return {"type": type(error).__name__, "message": str(error)[:1000], "traceback": said}


# --- figures and files -----------------------------------------------------------------------


def _figures() -> list[str]:
    """Return the open figures of matplotlib as Base64-encoded PNG images."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return []
    figures = []
    for number in pyplot.get_fignums()[:MAX_FIGURES]:
        file = io.BytesIO()
        pyplot.figure(number).savefig(file, format="png", bbox_inches="tight")
        if file.tell() > MAX_FIGURE_BYTES:
            continue
        figures.append(base64.b64encode(file.getvalue()).decode())
    pyplot.close("all")
    return figures


def _files() -> dict[str, tuple[int, int]]:
    """Return the size and time of each file in the working directory, without following links."""
    found: dict[str, tuple[int, int]] = {}
    with contextlib.suppress(RecursionError):  # folders may be nested too deeply
        for directory, _, names in os.walk("."):
            for name in names:
                path = os.path.relpath(os.path.join(directory, name))  # noqa: PTH118 - faster
                with contextlib.suppress(OSError):
                    status = os.lstat(path)
                    found[path] = (status.st_size, status.st_mtime_ns)
                if len(found) >= _MAX_FILES:
                    return found
    return found


def _new_files(before: dict[str, tuple[int, int]]) -> list[dict[str, Any]]:
    new = [
        {"path": path, "bytes": about[0]}
        for path, about in sorted(_files().items())
        if before.get(path) != about and "__pycache__" not in path
    ]
    return new[:_MAX_FILES_TOLD]


# --- variables -------------------------------------------------------------------------------


def _load(names: dict[str, Any], state: str | None) -> list[str]:
    """Restore the variables of the previous piece, and return its definitions."""
    if state is None:
        return []
    kept = json.loads(state)
    for each in kept["definitions"]:
        with contextlib.suppress(Exception):  # a module may no longer exist
            exec(compile(each, NAME, "exec"), names)  # noqa: S102 - as above
    sys.modules["__main__"].__dict__.update(names)
    for name, pickled in kept["values"].items():
        with contextlib.suppress(Exception):
            names[name] = pickle.loads(base64.b64decode(pickled))  # noqa: S301 - in the sandbox
    return list(kept["definitions"])


def _save(names: dict[str, Any], definitions: list[str]) -> tuple[str, list[str]]:
    """Return the state for the next piece, and the names of variables that cannot be kept."""
    sys.modules["__main__"].__dict__.update(names)
    values, not_kept = {}, []
    defined = {name for each in definitions for name in _defined_names(each)}
    for name, value in names.items():
        if name.startswith("__") or name in defined:
            continue
        try:
            values[name] = base64.b64encode(pickle.dumps(value)).decode()
        except Exception:  # noqa: BLE001 - a class of the code may raise anything
            not_kept.append(name)
    last = list(dict.fromkeys(reversed(definitions)))[::-1]
    return json.dumps({"definitions": last, "values": values}), not_kept[:_MAX_NOT_KEPT]


def _defined_names(definition: str) -> list[str]:
    names = []
    for each in ast.parse(definition).body:
        if isinstance(each, ast.Import | ast.ImportFrom):
            names += [alias.asname or alias.name.partition(".")[0] for alias in each.names]
        elif isinstance(each, ast.AsyncFunctionDef | ast.ClassDef | ast.FunctionDef):
            names.append(each.name)
    return names


if __name__ == "__main__":
    main()
