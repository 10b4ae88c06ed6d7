"""What Bash runs, the parser sees: random disguises of one command, run by Bash in the sandbox."""

import random

import pytest

from leonidas_tools.sandbox import NoSandboxError
from leonidas_tools.toolboxes.shell.commands import parse
from leonidas_tools.toolboxes.shell.risks import risks_of
from tests.sandbox.boxes import sandbox

DISGUISES = [
    lambda w, i: w,
    lambda w, i: f"'{w}'",
    lambda w, i: f'"{w}"',
    lambda w, i: f"{w[:i]}''{w[i:]}",
    lambda w, i: f"{w[:i]}\\{w[i:]}",
    lambda w, i: f"{w[:i]}\\\n{w[i:]}",
    lambda w, i: f"{w[:i]}${{unset}}{w[i:]}",
    lambda w, i: f"{w[:i]}$(:){w[i:]}",
    lambda w, i: f"{w[:i]}``{w[i:]}",
    lambda w, i: f"{w[:i]}$'{w[i:]}'",
    lambda w, i: "$'" + "".join(f"\\x{ord(c):02x}" for c in w) + "'",
]
WRAPPERS = [
    "bash -c {quoted}",
    "eval {quoted}",
    "env -u A A=1 bash -c {quoted}",
    "trap {quoted} EXIT",
    "bash <<< {quoted}",
    "echo {quoted} | bash",
    "xargs -I {{}} bash -c {quoted} <<< a",
    "find . -maxdepth 0 -exec bash -c {quoted} \\;",
    'v={quoted}; eval "$v"',
    "bash <<'E'\n{command}\nE\n",
    "cat <<E\n$({command})\nE\n",
    "( {command} )",
    "{{ {command}; }}",
    'echo "$({command})"',
    "x=$({command})",
    "declare x=$({command})",
    "if {command}; then :; fi",
    "for i in a; do {command}; done",
    "case a in a) {command};; esac",
    "f() {{ {command}; }}; f",
    "! {command}",
    "time {command}",
    "{command} | cat",
    "true | {command}",
    "cat <({command})",
    '[ -n "$({command})" ]',
    "echo ${{unset:-$({command})}}",
    "echo $(( 1 $({command}) ))",
    "x=a; echo ${{x#$({command})}}",
    "x=a; echo ${{x,,b$({command})}}",
    "cat <<E\n  $({command})\nE\n",
    ": # c\n{command}",
]
REDIRECTIONS = ["2>/dev/null", ">o", "2>&1", "</dev/null", "<<<a", ">>o 2>&1", "&>o"]


def disguised(random_):
    words = [random_.choice(DISGUISES)(word, random_.randrange(1, 2)) for word in ("rm", "-r")]
    words.append("x")
    if random_.random() < 0.3:
        words.insert(random_.randrange(4), random_.choice(REDIRECTIONS))
    command = " ".join(words)
    for _ in range(random_.randrange(4)):
        quoted = "'" + command.replace("'", "'\\''") + "'"
        command = random_.choice(WRAPPERS).format(command=command, quoted=quoted)
    return command


SCRIPT = r"""
mkdir /tmp/bin
printf '#!/bin/bash\necho "$*" >> "$LOG"\n' > /tmp/bin/rm
chmod +x /tmp/bin/rm
export PATH=/tmp/bin:$PATH
i=0
while IFS= read -r -d '' command; do
  i=$((i + 1))
  LOG=$PWD/$i bash --norc -c "$command" < /dev/null > /dev/null 2>&1
done < commands
"""


@pytest.mark.slow
async def test_every_command_that_bash_runs_is_seen_before(tmp_path):
    random_ = random.Random(20261123)
    commands = [disguised(random_) for _ in range(250)]
    (tmp_path / "commands").write_text("".join(f"{each}\0" for each in commands))
    async with sandbox("bubblewrap", tmp_path) as box:
        try:
            finished = await box.run(["/bin/bash", "-c", SCRIPT])
        except NoSandboxError as error:
            pytest.skip(str(error))
    assert finished.stopped_by is None
    run = [each for number, each in enumerate(commands, 1) if (tmp_path / str(number)).exists()]
    assert len(run) > 200
    assert [each for each in run if not risks_of(parse(each))] == []
