"""A root that is replaced after it was opened leads nowhere else: by links, renames and mounts."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from leonidas_tools import ToolRuntime

SECRET = "the secret outside"


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Return the folder above a root, the root, and a folder outside."""
    root, outside = tmp_path / "above" / "root", tmp_path / "outside"
    root.mkdir(parents=True)
    (root / "own").write_text("own")
    (outside / "root").mkdir(parents=True)
    for folder in (outside, outside / "root"):
        (folder / "own").write_text(SECRET)
    monkeypatch.chdir(tmp_path)
    return root.parent, root, outside


def by_a_link(above, root, outside):
    root.rename(above / "old")
    root.symlink_to(outside)


def by_a_folder(above, root, outside):
    root.rename(above / "old")
    outside.rename(root)


def by_a_link_above(above, root, outside):
    above.rename(outside.parent / "old")
    above.symlink_to(outside)


def by_a_link_to_everything(above, root, outside):
    root.rename(above / "old")
    root.symlink_to("/")


REPLACED = (by_a_link, by_a_folder, by_a_link_above, by_a_link_to_everything)


def runtime(root, backend, **read_only):
    sandbox = {"roots": [str(root)], "backend": backend, "processes": "off", **read_only}
    toolboxes = [{"files": {"roots": [str(root)]}}, {"shell": sandbox}, {"code": sandbox}]
    tools = {"run_shell": {"requires_approval": False}}
    return ToolRuntime(config={"toolboxes": toolboxes, "tools": tools})


async def reached(tools, outside):
    """Return what each tool reads at the path `own`, and whether any has written outside."""
    read = await tools.execute("read_file", {"path": "own"})
    ran = await tools.execute("run_shell", {"command": f"cat own {outside}/own; touch planted"})
    code = f"open('planted', 'w'); open('own').read(), open({str(outside / 'own')!r}).read()"
    executed = await tools.execute("execute_code", {"code": code})
    await tools.execute("write_file", {"path": "planted", "content": "x"})
    return [str(each.result or each.message) for each in (read, ran, executed)]


@pytest.mark.parametrize("replace", REPLACED)
async def test_a_root_that_is_replaced_leads_nowhere_else(places, backend, replace):
    above, root, outside = places
    tools = runtime(root, backend)
    async with tools:
        replace(above, root, outside)
        read = await reached(tools, outside)
    assert "own" in read[0]
    assert "'stdout': 'own'" in read[1]
    assert SECRET not in str(read)
    assert not [each for each in above.parent.rglob("planted") if "old" not in each.parts]


async def test_a_folder_to_read_that_is_replaced_leads_nowhere_else(places, backend):
    above, root, outside = places
    kept = root / "a" / "kept"
    kept.mkdir(parents=True)
    tools = runtime(root, backend, read_only=[str(kept)])
    async with tools:
        command = f"mv a b; mkdir a; ln -s {outside} a/kept; cat a/kept/own"
        await tools.execute("run_shell", {"command": command})
        if not (root / "a" / "kept").is_symlink():
            kept.rename(above / "old")
            kept.symlink_to(outside)
        ran = await tools.execute("run_shell", {"command": "cat a/kept/own"})
    assert SECRET not in str(ran)


async def test_a_program_has_no_descriptor_of_a_root(places, backend):
    tools = runtime(places[1], backend)
    code = "import os; [n for n in range(3, 256) if not _fails(os.fstat, n)]"
    helper = "def _fails(f, n):\n    try:\n        f(n)\n    except OSError:\n        return True\n"
    async with tools:
        ran = await tools.execute("execute_code", {"code": helper + code})
    assert ran.result["value"] == [3]  # the channel of the toolbox


MOUNTED = textwrap.dedent("""
    import asyncio, json, subprocess, sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[3])
    from tests.sandbox.test_replaced_roots import reached, runtime

    async def main(root, outside, backend):
        tools = runtime(root, backend)
        async with tools:
            subprocess.run(["mount", "--bind", str(outside), str(root)], check=True)
            return await reached(tools, outside)

    print(json.dumps(asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[4]))))
""")


def test_a_mount_over_a_root_leads_nowhere_else(places, backend):
    _, root, outside = places
    alone = ["unshare", "--mount"] if os.getuid() == 0 else ["unshare", "-rm"]
    if subprocess.run([*alone, "mount", "--bind", root, root], check=False).returncode != 0:
        pytest.skip("nothing can be mounted here")
    checkout = str(Path(__file__).parents[2])
    ran = subprocess.run(
        [*alone, sys.executable, "-c", MOUNTED, root, outside, checkout, backend],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    read = json.loads(ran.stdout.splitlines()[-1])
    assert "own" in read[0]
    assert SECRET not in str(read)
    assert not list(outside.rglob("planted"))
