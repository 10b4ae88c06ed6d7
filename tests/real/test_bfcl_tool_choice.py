"""Of 1,000 functions of BFCL, the right one is among the ten that are chosen."""

import pytest

from leonidas_tools import Tool, ToolRuntime
from leonidas_tools.agent import ToolChoice
from leonidas_tools.embeddings import LocalEmbedder
from tests.real.bfcl import Bfcl, json_schema

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800)]

_ASKED = ("simple_python", "multiple")
_MORE = ("parallel", "parallel_multiple", "live_simple", "live_multiple")
_TOOLS = 1_000
_SHARE = 0.95


def tools(bfcl: Bfcl) -> list[Tool[..., str]]:
    """1,000 functions, among them all of the questions."""
    found: dict[str, Tool[..., str]] = {}
    for case in (case for name in (*_ASKED, *_MORE) for case in bfcl.cases(name)):
        for each in case.functions:
            if each["name"] not in found and len(found) < _TOOLS:
                found[each["name"]] = Tool.from_json_schema(
                    name=each["name"],
                    description=each["description"],
                    parameters=json_schema(each["parameters"]),
                    function=lambda **_: "",
                    effect="read",
                )
    return list(found.values())


async def test_the_right_one_of_a_thousand_is_among_ten(bfcl: Bfcl) -> None:
    cases = [case for name in _ASKED for case in bfcl.cases(name)]
    choice = ToolChoice(LocalEmbedder(), most=10)
    missed = []
    async with ToolRuntime(tools(bfcl), builtin_tools=False) as runtime:
        declared = runtime.declared()
        assert len(declared) == _TOOLS
        for case in cases:
            chosen = await choice.choose(case.question, declared)
            if case.answers[0][0] not in [each.tool.name for each in chosen]:
                missed.append(case.id)
    share = 1 - len(missed) / len(cases)
    print(f"the right one among ten: {share:.3f} of {len(cases)}")
    assert share >= _SHARE, missed
