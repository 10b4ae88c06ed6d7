"""The picture of the architecture: the rooms of the package and which imports which.

`python -m tests.docs.rooms`, or `make picture`, draws it from the code, and writes the table of
rooms beside it. An arrow that follows from
others is left out: where `cli` imports `live` and `live` imports `runtime`, no arrow leads from
`cli` to `runtime`.
"""

import ast
import importlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path

import grimp

from leonidas_tools.policies.order import ORDER

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "architecture" / "rooms.svg"
PAGE = PICTURE.with_name("index.md")
PACKAGE = "leonidas_tools"

Graph = Mapping[str, frozenset[str]]
"""The rooms that each room imports."""
Node = str | tuple[str, str, int]
"""A room, or the place where an arrow from one room to another passes a row."""

_ROOM = (118, 30)
_GAP = 26
_ROW = 74
_MARGIN = 24
_SWEEPS = 40
_STYLE = """
    .paper { fill: #ffffff } .room { fill: #eef2ff; stroke: #4f5fa8 }
    text { fill: #1c2240; font: 13px system-ui, sans-serif; text-anchor: middle }
    .arrow { fill: none; stroke: #6b7394; stroke-width: 1.3 } .tip { fill: #6b7394 }
    @media (prefers-color-scheme: dark) {
      .paper { fill: #14161f } .room { fill: #262c47; stroke: #8f9fe8 }
      text { fill: #eceffc } .arrow { stroke: #98a1c4 } .tip { fill: #98a1c4 }
    }
"""


def rooms() -> Graph:
    """Return the rooms of the package and the rooms that each imports when it runs."""
    graph = grimp.build_graph(PACKAGE, exclude_type_checking_imports=True, cache_dir=None)
    own = {child for child in graph.find_children(PACKAGE) if not child.endswith("__main__")}
    imported: dict[str, set[str]] = {name.rpartition(".")[2]: set() for name in own}
    for module in graph.modules:
        room = _room(module)
        for other in graph.find_modules_directly_imported_by(module):
            # `AdvancedToolProcessor.attach` loads the live side, above it, when it is called.
            is_upward = (room, _room(other)) == ("processors", "live")
            if room in imported and _room(other) in imported and not is_upward:
                imported[room].add(_room(other))
    return {room: frozenset(others - {room}) for room, others in sorted(imported.items())}


def _room(module: str) -> str:
    return module.removeprefix(f"{PACKAGE}.").partition(".")[0]


def reduced(graph: Graph) -> Graph:
    """Return the graph without the arrows that follow from others."""
    below: dict[str, frozenset[str]] = {}

    def reach(room: str) -> frozenset[str]:
        if room not in below:
            below[room] = graph[room].union(*(reach(each) for each in graph[room]))
        return below[room]

    return {
        room: frozenset(
            each
            for each in others
            if not any(each in reach(other) for other in others if other != each)
        )
        for room, others in graph.items()
    }


def described() -> dict[str, str]:
    """Return the first sentence of the docstring of each room."""
    said = {}
    for room in rooms():
        folder = ROOT / PACKAGE / room
        file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        said[room] = (ast.get_docstring(ast.parse(file.read_text())) or "").split("\n")[0]
    return said


def with_table(page: str) -> str:
    """Return a page with the table of rooms in its place."""
    rows = [f"| `{room}` | {said} |" for room, said in described().items()]
    head, begin, rest = page.partition("<!-- rooms: begin -->\n")
    _, end, tail = rest.partition("<!-- rooms: end -->")
    return head + begin + "\n".join(["", "| room | |", "|---|---|", *rows, "", ""]) + end + tail


def drawn() -> str:
    """Return the picture as SVG."""
    graph = reduced(rooms())
    rows = _ordered(_rows(graph), graph)
    x = _placed(rows, graph)
    wide, high = _ROOM
    y = {node: _MARGIN + index * _ROW for index, row in enumerate(rows) for node in row}
    width = max(x.values()) + wide / 2 + _MARGIN
    height = _MARGIN * 2 + (len(rows) - 1) * _ROW + high
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" role="img"',
        f'  aria-label="The rooms of {PACKAGE} and their imports"',
        f'  viewBox="0 0 {width:.0f} {height:.0f}">',
        f"  <style>{_STYLE}  </style>",
        '  <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" orient="auto"',
        '    markerWidth="7" markerHeight="7">',
        '    <path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>',
        '  <rect class="paper" width="100%" height="100%" rx="8"/>',
    ]
    for start, end, passed in _arrows(rows, graph):
        at_x, at_y = x[start], y[start] + high
        path = f"M{at_x:.0f} {at_y:.0f}"
        for node in [*passed, end]:
            middle = (at_y + y[node]) / 2
            path += f"C{at_x:.0f} {middle:.0f} {x[node]:.0f} {middle:.0f} {x[node]:.0f} {y[node]}"
            at_x, at_y = x[node], y[node] + high
            path += f"V{at_y}" if node != end else ""
        lines.append(f'  <path class="arrow" marker-end="url(#tip)" d="{path}"/>')
    for room in graph:
        left, top = x[room] - wide / 2, y[room]
        lines += [
            f'  <rect class="room" x="{left:.0f}" y="{top:.0f}" rx="6"',
            f'    width="{wide}" height="{high}"/>',
            f'  <text x="{x[room]:.0f}" y="{top + 20:.0f}">{room}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def _rows(graph: Graph) -> list[list[Node]]:
    """Return the rows from the top; each room is as low as what imports it allows."""
    depth: dict[str, int] = {}

    def find(room: str) -> int:
        if room not in depth:
            depth[room] = 1 + max((find(each) for each in graph[room]), default=-1)
        return depth[room]

    lowest = max(find(room) for room in graph)
    rows: list[list[Node]] = [[] for _ in range(lowest + 1)]
    for room, others in graph.items():
        rows[lowest - depth[room]].append(room)
        for other in sorted(others):
            for passed in range(depth[other] + 1, depth[room]):
                rows[lowest - passed].append((room, other, lowest - passed))
    return rows


def _arrows(
    rows: list[list[Node]], graph: Graph
) -> Iterable[tuple[str, str, list[tuple[str, str, int]]]]:
    """Yield each arrow with the places where it passes a row."""
    passed: dict[tuple[str, str], list[tuple[str, str, int]]] = defaultdict(list)
    for row in rows:
        for node in row:
            if isinstance(node, tuple):
                passed[node[:2]].append(node)
    for room, others in graph.items():
        for other in sorted(others):
            yield room, other, passed[room, other]


def _neighbours(rows: list[list[Node]], graph: Graph) -> dict[Node, tuple[list[Node], list[Node]]]:
    """Return what each node is joined with in the row above and in the row below."""
    joined: dict[Node, tuple[list[Node], list[Node]]] = defaultdict(lambda: ([], []))
    for start, end, passed in _arrows(rows, graph):
        for upper, lower in pairwise([start, *passed, end]):
            joined[upper][1].append(lower)
            joined[lower][0].append(upper)
    return joined


def _ordered(rows: list[list[Node]], graph: Graph) -> list[list[Node]]:
    """Return the rows in the order with the fewest crossings that sweeps up and down find."""
    joined = _neighbours(rows, graph)
    best, fewest = rows, _crossings(rows, joined)
    for sweep in range(_SWEEPS):
        side = sweep % 2
        order = range(len(rows)) if side == 0 else range(len(rows) - 1, -1, -1)
        rows = list(rows)
        place: dict[Node, float] = {n: i for row in rows for i, n in enumerate(row)}
        for index in order:
            centre = {
                node: sum(place[n] for n in joined[node][side]) / len(joined[node][side])
                if joined[node][side]
                else place[node]
                for node in rows[index]
            }
            rows[index] = sorted(rows[index], key=lambda node: (centre[node], str(node)))
            place.update({node: i for i, node in enumerate(rows[index])})
        if (crossings := _crossings(rows, joined)) < fewest:
            best, fewest = rows, crossings
    return best


def with_policies(page: str) -> str:
    """Return the page with the policies of the table in the code, outermost first."""
    lines = []
    for number, name in enumerate(ORDER, start=1):
        file = name.partition(".")[0]
        module = importlib.import_module(f"{PACKAGE}.policies.{file}")
        function = getattr(module, name.partition(".")[2])
        about = module.__doc__ if function.__name__ == "for_tool" else function.__doc__
        summary = (about or "").partition("\n")[0]
        lines.append(f"{number}. `{name}`: {summary}")
    listed = "\n".join(lines)
    return re.sub(r"^1\. `.*?(?=\n\n)", lambda _: listed, page, flags=re.DOTALL | re.MULTILINE)


def _crossings(rows: list[list[Node]], joined: Mapping[Node, tuple[list[Node], list[Node]]]) -> int:
    place = {node: i for row in rows for i, node in enumerate(row)}
    count = 0
    for row in rows:
        lines = [(place[node], place[lower]) for node in row for lower in joined[node][1]]
        count += sum((a - c) * (b - d) < 0 for i, (a, b) in enumerate(lines) for c, d in lines[:i])
    return count


def _placed(rows: list[list[Node]], graph: Graph) -> dict[Node, float]:
    """Return the horizontal centre of each node: near what it is joined with, not overlapping."""
    joined = _neighbours(rows, graph)
    x: dict[Node, float] = {}
    for row in rows:
        for index, node in enumerate(row):
            x[node] = index * (_ROOM[0] + _GAP)
    for sweep in range(_SWEEPS):
        for row in rows if sweep % 2 else rows[::-1]:
            wanted = {}
            for node in row:
                near = [x[n] for side in joined[node] for n in side] or [x[node]]
                wanted[node] = sum(near) / len(near)
            _spread(row, wanted)
            x.update(wanted)
    left = min(x.values()) - _ROOM[0] / 2 - _MARGIN
    return {node: place - left for node, place in x.items()}


def _spread(row: list[Node], wanted: dict[Node, float]) -> None:
    """Move the nodes of a row apart, as little as possible, from both sides."""
    rightwards, leftwards = dict(wanted), dict(wanted)
    for before, node in pairwise(row):
        rightwards[node] = max(rightwards[node], rightwards[before] + _apart(before, node))
    for node, after in pairwise(row[::-1]):
        leftwards[after] = min(leftwards[after], leftwards[node] - _apart(after, node))
    for node in row:
        wanted[node] = (rightwards[node] + leftwards[node]) / 2


def _apart(left: Node, right: Node) -> float:
    widths = [_ROOM[0] if isinstance(node, str) else 0 for node in (left, right)]
    return sum(widths) / 2 + _GAP


if __name__ == "__main__":
    PICTURE.write_text(drawn())
    PAGE.write_text(with_policies(with_table(PAGE.read_text())))
