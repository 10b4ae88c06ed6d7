"""Find the commands that wrapper commands such as `env` and `xargs` run."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Literal, TypeAlias

from leonidas_tools.toolboxes.shell.words import UNKNOWN, Word

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Reads: TypeAlias = Literal["text", "file", "input"] | None

SHELLS = frozenset({"ash", "bash", "dash", "ksh", "mksh", "rbash", "sh", "zsh"})
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_SHELL_OPTIONS = ("-o", "-O", "+o", "+O", "--rcfile", "--init-file")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Wrapper:
    """A command whose arguments end in another command."""

    valued: frozenset[str] = frozenset()  # options whose value is the next word
    plain: frozenset[str] = frozenset()  # options without a value
    operands: int = 0  # the number of words before the command
    more: bool = False  # whether the wrapper adds unknown words


@dataclass(kw_only=True, slots=True)
class Inner:
    """Commands that a command runs."""

    commands: list[Sequence[Word]] = field(default_factory=list)  # the words of each
    scripts: list[Word] = field(default_factory=list)  # texts that a shell runs
    # variables that the command sets for its inner commands
    assigned: list[tuple[str, Word]] = field(default_factory=list)
    reads: Reads = None  # for a shell, the source of its commands


def _set(options: str) -> frozenset[str]:
    return frozenset(options.split())


_WRAPPERS: Mapping[str, _Wrapper] = {
    "abduco": _Wrapper(),
    "builtin": _Wrapper(),
    "busybox": _Wrapper(),
    "bwrap": _Wrapper(),
    "caffeinate": _Wrapper(valued=_set("-t -w")),
    "chronic": _Wrapper(),
    "chroot": _Wrapper(operands=1),
    "catchsegv": _Wrapper(),
    "cgexec": _Wrapper(valued=_set("-g")),
    "choom": _Wrapper(valued=_set("-n --adjust -p --pid")),
    "chrt": _Wrapper(operands=1, valued=_set("-T -P -D")),
    "command": _Wrapper(plain=_set("-p -v -V")),
    "coproc": _Wrapper(),
    "cpulimit": _Wrapper(valued=_set("-l -p -e -P --limit")),
    "dbus-launch": _Wrapper(),
    "dbus-run-session": _Wrapper(valued=_set("--config-file --dbus-daemon")),
    "doas": _Wrapper(valued=_set("-u -C")),
    "dtach": _Wrapper(),
    "dumb-init": _Wrapper(),
    "eatmydata": _Wrapper(),
    "entr": _Wrapper(plain=_set("-a -c -d -n -p -r -s -z")),
    "env": _Wrapper(
        valued=_set("-u --unset -C --chdir -a --argv0"), plain=_set("-i - -0 --ignore-environment")
    ),
    "exec": _Wrapper(valued=_set("-a")),
    "fakechroot": _Wrapper(),
    "fakeroot": _Wrapper(valued=_set("-i -s -l -f -b")),
    "faketime": _Wrapper(operands=1),
    "firejail": _Wrapper(),
    "flock": _Wrapper(operands=1, valued=_set("-w --timeout -E")),
    "gosu": _Wrapper(operands=1),
    "ifne": _Wrapper(),
    "ionice": _Wrapper(valued=_set("-c -n --class --classdata")),
    "linux32": _Wrapper(),
    "linux64": _Wrapper(),
    "logsave": _Wrapper(operands=1),
    "ltrace": _Wrapper(valued=_set("-o -e -s -u -p")),
    "nice": _Wrapper(valued=_set("-n --adjustment")),
    "nohup": _Wrapper(),
    "nsenter": _Wrapper(valued=_set("-t --target -S -G")),
    "numactl": _Wrapper(),
    "parallel": _Wrapper(valued=_set("-j --jobs -N -a"), more=True),
    "perf": _Wrapper(operands=1),
    "pkexec": _Wrapper(valued=_set("--user")),
    "prlimit": _Wrapper(),
    "proxychains": _Wrapper(valued=_set("-f")),
    "proxychains4": _Wrapper(valued=_set("-f")),
    "proot": _Wrapper(valued=_set("-r -b -w")),
    "run0": _Wrapper(),
    "runcon": _Wrapper(operands=1),
    "rlwrap": _Wrapper(),
    "setarch": _Wrapper(operands=1),
    "setpriv": _Wrapper(valued=_set("--reuid --regid --groups")),
    "setsid": _Wrapper(),
    "ssh-agent": _Wrapper(valued=_set("-a -E -O -P -t")),
    "sshpass": _Wrapper(valued=_set("-p -f -P")),
    "stdbuf": _Wrapper(valued=_set("-i -o -e --input --output --error")),
    "strace": _Wrapper(valued=_set("-o -e -s -u -p -E -P")),
    "su-exec": _Wrapper(operands=1),
    "sudo": _Wrapper(valued=_set("-u -g -C -D -h -p -r -t -U -T")),
    "systemd-inhibit": _Wrapper(),
    "systemd-run": _Wrapper(valued=_set("-p --property -u --unit -t")),
    "taskset": _Wrapper(operands=1),
    "time": _Wrapper(plain=_set("-p -v -a"), valued=_set("-f -o --format --output")),
    "timeout": _Wrapper(
        operands=1,
        valued=_set("-k --kill-after -s --signal"),
        plain=_set("-v --verbose --foreground --preserve-status"),
    ),
    "tini": _Wrapper(plain=_set("-s -v -w -g"), valued=_set("-p -e")),
    "torsocks": _Wrapper(),
    "toybox": _Wrapper(),
    "unbuffer": _Wrapper(),
    "unshare": _Wrapper(valued=_set("-S -G -R -w")),
    "valgrind": _Wrapper(),
    "watch": _Wrapper(valued=_set("-n --interval")),
    "x86_64": _Wrapper(),
    "xvfb-run": _Wrapper(plain=_set("-a --auto-servernum"), valued=_set("-e -f -n -p -s -w")),
    "xargs": _Wrapper(
        valued=_set("-a -d -E -I -L -n -P -s --delimiter --max-args --arg-file --max-procs"),
        plain=_set("-0 --null -r --no-run-if-empty -t --verbose -x --exit"),
        more=True,
    ),
}


def inner_of(program: str, words: Sequence[Word]) -> Inner:
    """Return the commands that a command runs, from its program and arguments."""
    if program in SHELLS:
        return _of_shell(words)
    if program in _SPECIAL:
        return _SPECIAL[program](words)
    wrapper = _WRAPPERS.get(program)
    if wrapper is None and program.startswith(("ld-linux", "ld.so", "ld-musl")):
        wrapper = _Wrapper()
    return Inner() if wrapper is None else _of_wrapper(wrapper, words)


def _of_wrapper(wrapper: _Wrapper, words: Sequence[Word]) -> Inner:
    """Return the command after the options; after an unknown option, all candidates."""
    inner, index, operands, unsure = Inner(), 0, wrapper.operands, False
    while index < len(words):
        word = words[index]
        assignment = _ASSIGNMENT.fullmatch(word.text)
        index += 1
        if _is_option(word):
            unsure = unsure or _may_take_next(wrapper, word.text)
            index += word.text in wrapper.valued
        elif assignment is not None and not unsure:
            inner.assigned.append((assignment[1], Word(assignment[2], known=word.known)))
        elif operands:
            operands -= 1
        else:
            index -= 1
            break
    rest = words[index:]
    more = [UNKNOWN] if wrapper.more else []
    starts = [start for start, word in enumerate(rest) if start == 0 or not _is_option(word)]
    inner.commands += [[*rest[start:], *more] for start in (starts if unsure else starts[:1])]
    return inner


def _is_option(word: Word) -> bool:
    return word.known and word.text.startswith("-")


def _may_take_next(wrapper: _Wrapper, option: str) -> bool:
    """Return whether an option is unknown and may take the next word as its value."""
    if option in wrapper.valued | wrapper.plain or option == "--" or "=" in option:
        return False
    letter = option[:2]
    return option.startswith("--") or letter not in wrapper.valued


def _of_shell(words: Sequence[Word]) -> Inner:
    """Return the text after `-c`; without `-c`, a shell reads a file or its input."""
    index = 0
    while index < len(words):
        word = words[index]
        if not word.known:
            return Inner(scripts=[word])
        if word.text in _SHELL_OPTIONS:
            index += 1
        elif re.fullmatch(r"[-+]\w*c\w*", word.text):
            rest = [each for each in words[index + 1 :] if not each.text.startswith(("-", "+"))]
            return Inner(scripts=rest[:1], reads="text")
        elif word.text == "-" or re.fullmatch(r"-\w*s\w*", word.text):
            return Inner(reads="input")
        elif not word.text.startswith(("-", "+")):
            return Inner(reads="file")
        index += 1
    return Inner(reads="input")


def _of_eval(words: Sequence[Word]) -> Inner:
    if not words:
        return Inner()
    text = " ".join(word.text for word in words)
    return Inner(scripts=[Word(text, known=all(word.known for word in words))])


def _of_trap(words: Sequence[Word]) -> Inner:
    words = [word for word in words if word.text != "--"]
    return Inner(scripts=list(words[:1]) if len(words) > 1 else [])


def _of_alias(words: Sequence[Word]) -> Inner:
    found = [(_ASSIGNMENT.fullmatch(word.text), word.known) for word in words]
    return Inner(scripts=[Word(match[2], known=known) for match, known in found if match])


def _of_env(words: Sequence[Word]) -> Inner:
    for index, word in enumerate(words):
        split = re.match(r"-\w*S|--s\w*(-\w*)?=?", word.text)
        if split:
            rest = word.text[split.end() :]
            texts = [*([Word(rest, known=word.known)] if rest else []), *words[index + 1 :]]
            return _of_eval(texts)
    return _of_wrapper(_WRAPPERS["env"], words)


def _of_find(words: Sequence[Word]) -> Inner:
    """Return the commands of `-exec` and similar options, each up to `;` or `+`."""
    inner, left = Inner(), iter(words)
    for word in left:
        if word.text in ("-exec", "-execdir", "-ok", "-okdir"):
            command = takewhile(lambda each: each.text not in (";", "+"), left)
            given = [UNKNOWN if "{}" in each.text else each for each in command]
            inner.commands += [given] if given else []
    return inner


def _of_fd(words: Sequence[Word]) -> Inner:
    """Return the command after `-x` or `-X`, which also receives file names."""
    for index, word in enumerate(words):
        name, separator, value = word.text.partition("=")
        long = len(name) > 3 and "--exec-batch".startswith(name)  # noqa: PLR2004 - not `--e`
        if long or (word.text[:1] == "-" and word.text[1:2] != "-" and word.text[-1:] in "xX"):
            first = [Word(value, known=word.known)] if separator else []
            return Inner(commands=[[*first, *words[index + 1 :], UNKNOWN]])
    return Inner()


def _of_run(words: Sequence[Word]) -> Inner:
    """Return the command after `run`, `exec` or `x`, and the text after `-c`."""
    texts = [word.text for word in words]
    inner = _of_option("-c", "--call")(words)
    for name in ("run", "exec", "x"):
        if name in texts:
            behind = words[texts.index(name) + 1 :]
            inner.commands += _of_wrapper(_Wrapper(), behind).commands
    return inner


def _of_every(words: Sequence[Word]) -> Inner:
    """Return each word except options as a text that a shell runs."""
    return Inner(scripts=[word for word in words if not _is_option(word)])


def _of_option(*options: str) -> Callable[[Sequence[Word]], Inner]:
    """Return a function that returns the text after one of these options as a script."""

    def read(words: Sequence[Word]) -> Inner:
        scripts = [following for word, following in pairwise(words) if _is_one(word.text, options)]
        for word in words:
            name, separator, value = word.text.partition("=")
            if separator and _is_one(name, options):
                scripts.append(Word(value, known=word.known))
        return Inner(scripts=scripts)

    return read


def _is_one(given: str, options: Sequence[str]) -> bool:
    """Return whether an option matches: a long one abbreviated, a short one last in a group."""
    if given.startswith("--"):
        return len(given) > 2 and any(each.startswith(given) for each in options)  # noqa: PLR2004
    letters = {each[1] for each in options if not each.startswith("--")}
    return given.startswith("-") and given[-1:] in letters


def _of_flock(words: Sequence[Word]) -> Inner:
    scripts = _of_option("-c", "--command")(words)
    return scripts if scripts.scripts else _of_wrapper(_WRAPPERS["flock"], words)


def _of_watch(words: Sequence[Word]) -> Inner:
    """Return the text that `watch` runs in a shell."""
    inner = _of_wrapper(_WRAPPERS["watch"], words)
    return Inner(scripts=[script for each in inner.commands for script in _of_eval(each).scripts])


def _of_ssh(words: Sequence[Word]) -> Inner:
    """Return the words after the host as a script, which a remote shell runs."""
    valued = {"-" + letter for letter in "bcDEeFIiJLlmOopQRSWw"}
    index = 0
    while index < len(words) and words[index].text.startswith("-"):
        index += 2 if words[index].text in valued else 1
    return _of_eval(words[index + 1 :])


def _of_git(words: Sequence[Word]) -> Inner:
    """Return what `git` runs in a shell: `rebase --exec`, `submodule foreach`, `bisect run`."""
    texts = [word.text for word in words]
    inner = _of_option("--exec", "-x", "--extcmd")(words)
    for first, second in (("submodule", "foreach"), ("bisect", "run")):
        if first in texts and second in texts:
            rest = words[texts.index(second) + 1 :]
            inner.scripts += _of_eval(
                [each for each in rest if not each.text.startswith("--")]
            ).scripts
    return inner


_SPECIAL: Mapping[str, Callable[[Sequence[Word]], Inner]] = {
    "alias": _of_alias,
    "env": _of_env,
    "bundle": _of_run,
    "compgen": _of_option("-C", "-W"),
    "conda": _of_run,
    "doppler": _of_run,
    "eval": _of_eval,
    "fd": _of_fd,
    "fdfind": _of_fd,
    "find": _of_find,
    "flock": _of_flock,
    "git": _of_git,
    "hyperfine": _of_every,
    "mapfile": _of_option("-C"),
    "npm": _of_run,
    "npx": _of_run,
    "pdm": _of_run,
    "pipenv": _of_run,
    "pnpm": _of_run,
    "poetry": _of_run,
    "readarray": _of_option("-C"),
    "rsh": _of_ssh,
    "runuser": _of_option("-c", "--command"),
    "script": _of_option("-c", "--command"),
    "ssh": _of_ssh,
    "su": _of_option("-c", "--command"),
    "trap": _of_trap,
    "uv": _of_run,
    "yarn": _of_run,
    "watch": _of_watch,
}
