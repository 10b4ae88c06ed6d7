"""Runs the benchmarks and prints the tables; `--help` says more."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tests.benchmarks import suite
from tests.benchmarks.pairs import ROOT, FailedRunError, Pair, plan, run_pair
from tests.benchmarks.report import in_short, judge, to_json, to_markdown

_BEGIN, _END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"
_RESULTS = Path(__file__).parent / "RESULTS.md"


def main() -> int:
    """Runs what was asked for."""
    options = _options()
    results, failures = _run(options.workloads or suite.NAMES, options.adapters, options.quick)
    table = to_markdown(results)
    print(table)
    if options.json:
        Path(options.json).write_text(json.dumps(to_json(results), indent=1) + "\n")
    if options.write:
        _RESULTS.write_text(f"# What it costs\n\nWritten by `make bench`.\n\n{table}")
        _write(ROOT / "docs" / "benchmarks.md", in_short(results))
    for failure in failures:
        print(failure, file=sys.stderr)
    missed = options.strict and not all(verdict.met for verdict in judge(results))
    return int(missed or bool(failures))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=", ".join(suite.NAMES))
    parser.add_argument("--adapters", nargs="+", metavar="ADAPTER", help="only these")
    parser.add_argument("--quick", action="store_true", help="one short pair each")
    parser.add_argument("--json", metavar="FILE", help="every figure of every pair")
    parser.add_argument(
        "--write", action="store_true", help="write RESULTS.md, and docs/benchmarks.md in short"
    )
    parser.add_argument("--strict", action="store_true", help="fail where a goal is missed")
    options = parser.parse_args()
    for name in options.workloads:
        if name not in suite.NAMES:
            parser.error(f"no workload {name!r}; choose from {', '.join(suite.NAMES)}")
    return options


def _run(
    names: Sequence[str], adapters: list[str] | None, quick: bool
) -> tuple[dict[str, list[Pair]], list[FailedRunError]]:
    pairs = [pair for pair in plan(names, quick) if not adapters or pair[1] in adapters]
    results: dict[str, list[Pair]] = {}
    failures: list[FailedRunError] = []
    console = Console(file=sys.stderr)
    columns = (TextColumn("{task.completed}/{task.total}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=console) as progress:
        task = progress.add_task("", total=len(pairs))
        for name, adapter in pairs:
            progress.update(task, description=f"{name}: {adapter}")
            if not console.is_terminal:
                progress.console.print(f"{name}: {adapter}")
            try:
                pair = run_pair(name, adapter, quick, progress.console.print)
                results.setdefault(name, []).append(pair)
            except FailedRunError as failure:  # the others still tell something
                failures.append(failure)
            progress.advance(task)
    return results, failures


def _write(page: Path, table: str) -> None:
    text = page.read_text()
    if _BEGIN not in text or _END not in text:
        raise SystemExit(f"{page.name} needs the lines {_BEGIN} and {_END}")
    head, rest = text.split(_BEGIN, 1)
    tail = rest.split(_END, 1)[1]
    page.write_text(f"{head}{_BEGIN}\n{table}{_END}{tail}")


if __name__ == "__main__":
    sys.exit(main())
