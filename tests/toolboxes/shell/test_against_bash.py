"""What Bash runs is what was parsed: random scripts that count as certain, run by Bash."""

import random
import subprocess

import pytest

from leonidas_tools.toolboxes.shell.commands import parse
from leonidas_tools.toolboxes.shell.risks import runs_only_its_commands

PIECES = ["rm", "rm x", "r", "m", "echo", "echo a", "true", "test", "[", "]", "-f", "x", "'", "'"]
PIECES += ['"', '"', "\\", "\\\n", "\n", "\n", " ", " ", " ", " ", ";", "&", "&&", "|", "||", "("]
PIECES += [")", "{", "}", "$", "$(", "${", "}", "`", "#", "# ", "<", ">", "2>", "&1", "/dev/null"]
PIECES += ["<<E\n", "E\n", "<(", "((", "))", "=", "a=", "!", "if ", "then ", "else ", "fi"]
PIECES += ["for a in ", "do ", "done", "while ", "case ", "in ", "esac", "*", "?", "[a]", "~", "$a"]
PIECES += ['"$a"', "'rm'", "'rm x'", "$'", "function f", "f()", "time", "coproc", "\t", "-v", "a["]
PIECES += ["eval", "exec", "\u00e9", "printf", "%s", ",", "{a,b}", "$((", "[[", "]]", "#rm", "$#"]
PIECES += ["${#a}", "<<<", "&>", "|&", ";;", "in\n", "echo $(rm x)", "cd"]
PLACES = ["for a in b; do {}; done", "if {}; then true; fi", "({})", "{{ {}; }}", "echo $({})"]
PLACES += [
    'echo "$({})"',
    "! {}",
    "{} | cat",
    "true | {}",
    "{} && echo",
    "[ -f x ] && {}",
    "{} # c",
]
PLACES += ["echo 'a' \"b\" {}", "{} 2>/dev/null", "echo a{}", 'echo "{}"', "echo '{}'", "{}\nrm x"]
PLACES += ["echo $(\n{}\n)", "echo a\n{}\necho b", "[ {} ]", "[ a = {} ]"]
SCRIPT = r"""
i=0
while IFS= read -r -d '' script; do
  i=$((i + 1))
  LOG=$PWD/$i /bin/bash --noprofile --norc -c "$script"
done < scripts
exit 0
"""


def random_script(random_):
    script = "".join(random_.choice(PIECES) for _ in range(random_.randrange(1, 7)))
    for _ in range(random_.randrange(4)):
        script = random_.choice(PLACES).format(script)
    at = random_.randrange(len(script) + 1)
    return script[:at] + random_.choice(["", "", *PIECES]) + script[at:]


@pytest.mark.parametrize("seed", range(4))
def test_bash_runs_no_program_that_was_not_seen(tmp_path, seed):
    random_ = random.Random(seed)
    parsed = {script: parse(script) for script in (random_script(random_) for _ in range(5_000))}
    certain = [script for script, read in parsed.items() if runs_only_its_commands(read)]
    (tmp_path / "scripts").write_text("".join(f"{each}\0" for each in certain))
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "rm"  # the only program besides those of Bash
    program.write_text('#!/bin/bash\necho x >> "$LOG"\n')
    program.chmod(0o755)
    line = ["/bin/bash", "--noprofile", "--norc", "-c", SCRIPT]
    environment = {"PATH": str(program.parent), "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    given = {"stdin": subprocess.DEVNULL, "capture_output": True, "env": environment}
    subprocess.run(line, cwd=tmp_path, check=True, **given)
    removed = [each for n, each in enumerate(certain, 1) if (tmp_path / str(n)).exists()]
    assert len(removed) > 20
    seen = [each for each in removed if "rm" in [c.program for c in parsed[each].commands]]
    assert removed == seen
