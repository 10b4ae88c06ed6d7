"""What the library logs is one line, whatever the texts of others in it hold."""

import logging
import pkgutil
import re

import pytest

import leonidas_tools
from leonidas_tools import AdvancedToolProcessor, Tool
from leonidas_tools.redaction.visible import visible_json, visible_logger
from tests.hostile import SIGNS

PLAIN = re.compile(r"getLogger\(__name__\)|logging\.(debug|info|warning|error|exception)\(")
FORGED = "x\nWARNING leonidas_tools: all is well"


@pytest.fixture
def written():
    """Logs by a plain handler, as programs do that use the library; gives the lines."""
    logger = visible_logger("leonidas_tools.test_visible_logs")
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.extend(
        logging.Formatter("%(name)s: %(message)s").format(record).splitlines()
    )
    logger.addHandler(handler)

    def log(*arguments, **options):
        lines.clear()
        logger.warning(*arguments, **options)
        return list(lines)

    yield log
    logger.removeHandler(handler)


@pytest.mark.parametrize("sign", SIGNS, ids=ascii)
@pytest.mark.parametrize("form", ["%s", "%r"])
@pytest.mark.parametrize(
    "kind", [str, ValueError, lambda text: [text]], ids=["text", "error", "list"]
)
def test_a_record_is_one_line_in_which_nothing_is_unseen(written, sign, form, kind):
    (line,) = written(f"The tool {form} failed", kind(f"pay{sign}x"))
    assert sign not in line


def test_numbers_stay_numbers(written):
    assert written("%d of %.1f, %s, %r", 3, 0.5, None, True) == [
        "leonidas_tools.test_visible_logs: 3 of 0.5, None, True"
    ]


def test_a_traceback_begins_no_line_that_looks_like_a_record(written):
    try:
        raise ValueError(f"{FORGED}\x1b[2J")
    except ValueError as error:
        first, *trace = written("The tool %r raised", "pay", exc_info=error)
    assert first.endswith("The tool 'pay' raised")
    assert trace
    assert all(line.startswith("  ") for line in trace)
    assert "\x1b" not in "".join(trace)


def test_every_module_of_the_library_logs_so():
    plain = []
    for module in pkgutil.walk_packages(leonidas_tools.__path__, "leonidas_tools."):
        spec = module.module_finder.find_spec(module.name)
        source = spec.loader.get_source(module.name)
        if re.search(
            r"getLogger\(__name__\)|logging\.(debug|info|warning|error|exception)\(", source
        ):
            plain.append(module.name)
    assert plain == []


async def test_a_tool_with_a_hostile_name_forges_no_line(caplog):
    def fail():
        raise RuntimeError(FORGED)

    tool = Tool.from_json_schema(
        name=f"pay{FORGED}", description="Pays.", parameters={"type": "object"}, function=fail
    )
    async with AdvancedToolProcessor([tool]) as tools:
        await tools.execute(tool.name)
    assert caplog.messages
    assert [message for message in caplog.messages if "\n" in message] == []


@pytest.mark.parametrize("sign", [*SIGNS, "\ud800", "\U000e0041"], ids=ascii)
def test_json_in_a_terminal_hides_nothing_and_says_the_same(sign):
    import json

    value = {"a" + sign: [sign + "b"]}
    shown = visible_json(json.dumps(value, ensure_ascii=False, indent=2))
    assert json.loads(shown) == value
    assert sign == "\n" or sign not in shown
