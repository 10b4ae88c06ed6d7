"""The diff of the guide adds a policy, in three files."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "write-a-policy.md"
PROGRAM = """
import asyncio
import json
from leonidas_tools import AdvancedToolProcessor, ToolSession, tool
from leonidas_tools.settings.json_schema import settings_schema
from leonidas_tools.settings.option_sources import effective

@tool(effect="read", pause_seconds=60)
def ring() -> str:
    "Rings a bell."
    return "done"

async def main(config):
    session = ToolSession("one")
    async with AdvancedToolProcessor([ring], config=config) as tools:
        results = [await tools.execute("ring", {}, session=session) for _ in range(2)]
        (shown,) = [
            each for each in effective(ring, tools.settings.current) if each.name == "pause_seconds"
        ]
    return [each.status.value for each in results], shown.value, shown.source

print(json.dumps([
    asyncio.run(main(None)),
    asyncio.run(main({"tools": {"ring": {"pause_seconds": "off"}}})),
    settings_schema()["$defs"]["ToolConfiguration"]["properties"]["pause_seconds"]["description"],
]))
"""


def _apply(hunks: str, folder: Path) -> list[str]:
    """Apply a unified diff to the files of a folder, and return their names."""
    changed = []
    for part in re.split(r"^--- .*\n", hunks, flags=re.MULTILINE)[1:]:
        header, *rest = part.splitlines()
        name = header.removeprefix("+++ b/")
        file = folder / name
        old = "".join(f"{line[1:]}\n" for line in rest if line[0] in " -")
        new = "".join(f"{line[1:]}\n" for line in rest if line[0] in " +")
        text = file.read_text() if file.exists() else ""
        assert old == "" or text.count(old) == 1, f"the diff of {name} does not apply"
        file.write_text(text.replace(old, new) if old else new)
        changed.append(name)
    return changed


def test_a_policy_is_a_file_a_field_and_a_line(tmp_path):
    (diff,) = re.findall(r"```diff\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    hunks = re.sub(r"^@@.*\n", "", diff, flags=re.MULTILINE)
    shutil.copytree(
        ROOT / "leonidas_tools",
        tmp_path / "leonidas_tools",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    assert _apply(hunks, tmp_path) == [
        "leonidas_tools/policies/pause.py",
        "leonidas_tools/policies/order.py",
        "leonidas_tools/tools/metadata.py",
    ]
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.stdout.strip() == (
        '[[["ok", "limited"], 60, "decorator"], [["ok", "ok"], null, "settings"], '
        '"The pause between two calls of a session; 0 or off for none."]'
    ), ran.stderr
