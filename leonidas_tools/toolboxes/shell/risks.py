"""Find risks in a command that a person should approve first."""

from __future__ import annotations

import re
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

from leonidas_tools.toolboxes.shell.words import Word, options_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from leonidas_tools.toolboxes.shell.commands import Command, Script

Risk: TypeAlias = Literal["destroys", "escalates", "publishes", "system", "unclear", "unseen"]

_HARMLESS_DEVICES = re.compile(
    r"/dev/(null|zero|full|random|urandom|tty|stdin|stdout|stderr|fd/\d+|shm/.*)"
)
_EVERYTHING = re.compile(r"(\.{0,2}/)*+(\*|\.\*|\.|\.\.|~/?\*?|/|)/*")
_LEADING = re.compile(
    r"(PATH|IFS|ENV|SHELL|CDPATH|PS4|PROMPT_COMMAND|BASH_\w+|SHELLOPTS|(LD|DYLD)_\w+|GIT_\w+|LESS(OPEN|CLOSE)"
    r"|PYTHON(PATH|STARTUP|HOME)|PERL5\w*|NODE_OPTIONS|RUBYOPT|EDITOR|VISUAL|\w*PAGER)"
)
"""Variables that change which program runs, or that make it run other programs."""
_SETUID = re.compile(r"[0-7]*[2-7][0-7]{3}|[ugoa]*[+=][rwxX]*s\w*")
_MODULES_WITH_CODE = frozenset({"cProfile", "code", "pdb", "profile", "runpy", "timeit", "trace"})
_PLAIN_SETTINGS = ("advice.", "color.", "core.quotepath", "init.", "pull.", "push.", "user.")
_SQL = re.compile(
    r"^\.(shell|system|read|import)\b|\\!|\bprogram\b|\bflush(all|db)\b"
    r"|\b(drop\w*|truncate|delete\w*|remove\w*|alter|grant|update\w*)\b",
    re.IGNORECASE,
)
_AWK = re.compile(r"system\s*\(|\|\s*(getline|\")|\"\s*\||getline|@(load\b|\w+\s*\()")
_ONE_BAR = re.compile(r"(?<!\|)\|(?!\|)")
_SED = re.compile(
    r"(^(-\w*e)?|[;{}\n\d$/!=])[^\S\n]*[ewW](\s|$)|/[gpiIm\d]*[ew][gpiIm\d]*(\s|;|$)"
    r"|(^(-\w*e)?|[^\w\\])s(?P<mark>[!-/:-@\[\]^`{-~])"
    r"(?:\\.|(?!(?P=mark))[^\\])*+(?P=mark)(?:\\.|(?!(?P=mark))[^\\])*+(?P=mark)[gpiImM\d]*[ew]"
    r"|(^(-\w*e)?|[;{}\n])[^\S\n]*s(?P<letter>[\w \t])"  # any character may be the mark
    r"(?:\\.|(?!(?P=letter))[^\\])*+(?P=letter)(?:\\.|(?!(?P=letter))[^\\])*+(?P=letter)"
    r"[gpiImM\d]*[ew][gpiImM\d]*(\s|[;}]|$)"
    r"|(^(-\w*e)?|[;{}\n,])[^\S\n]*\\(?P<around>[ -~])"
    r"(?:\\.|(?!(?P=around))[^\\])*+(?P=around)[IM]*[^\S\n]*!?[^\S\n]*[ewW](\s|$)"
    r"|(^(-\w*e)?|[^\w\\])s(?![\w\s])[^\x00-\x7f]",
    re.DOTALL,
)
_LONGEST_NAME = 255
_LONGEST_PROGRAM = 2_000
"""Length of a program text up to which it is searched: the time grows with its square."""
_REMOVING = re.compile(r"(^|[:-])(delete|destroy|remove|rm|purge)$|^DELETE$")
_REMOTE = re.compile(r"rsync://.*|[^/]+:.*")
_REQUEST = re.compile(r"(?:--request=?|-\w*X)(\w*)")
_READING = frozenset({"GET", "HEAD", "OPTIONS"})


def risks_of(script: Script) -> list[Risk]:
    """Return the kinds of risk of a script, each once.

    Example:
        >>> from leonidas_tools.toolboxes.shell.commands import parse
        >>> risks_of(parse("cd build && rm -rf *")), risks_of(parse("ls -l | wc -l"))
        (['destroys'], [])
    """
    found: list[Risk] = ["unclear"] if script.unclear else []
    for name, value in script.assigned:
        if _LEADING.fullmatch(name.partition("[")[0]):
            found.append("unseen")
        if "[" in value.text and ("$(" in value.text or "`" in value.text):
            found.append("unclear")  # arithmetic on the variable would run the substitution
    found += ["destroys" for target in script.written if _is_device(target)]
    found += ["unseen" for target in script.written if ".git/hooks/" in target.text]
    found += ["publishes"] if script.connected else []
    for command in script.commands:
        found += _risks(command)
    return list(dict.fromkeys(found))


def _risks(command: Command) -> Iterator[Risk]:
    program = command.program
    check = _CHECKS.get(program) or _CHECKS.get(_VERSION.sub("", program[:_LONGEST_NAME]))
    if check is not None:
        yield from check(command.arguments)
    elif program.startswith("mkfs"):
        yield "destroys"
    if command.reads in ("file", "input"):
        yield "unseen"


def _is_device(target: Word) -> bool:
    """Return whether a written file is or may be a device, except harmless ones."""
    inside = target.text.startswith(("/dev/", "/proc/", "/sys/"))
    return inside and not _HARMLESS_DEVICES.fullmatch(target.text)


def _always(*risks: Risk) -> Callable[[Sequence[Word]], Iterable[Risk]]:
    return lambda _: risks


def _with_options(risk: Risk, *options: str) -> Callable[[Sequence[Word]], Iterable[Risk]]:
    """Return a check for options; an unknown word may be one of them."""
    return partial(_has_options, risk, options)


def _has_options(risk: Risk, wanted: Sequence[str], words: Sequence[Word]) -> Iterator[Risk]:
    given, others = options_of(words)
    if any(_is_option(each, wanted) for each in given) or any(w.may_be_option for w in others):
        yield risk


def _is_option(given: str, wanted: Sequence[str]) -> bool:
    """Return whether an option is one of the wanted ones; a long option may be abbreviated."""
    name = given.partition("=")[0]
    if len(name) > 2:  # noqa: PLR2004 - `--` and at least one letter
        return any(each.startswith(name) for each in wanted if each.startswith("--"))
    return name in wanted


def _with_words(risk: Risk, *words: str) -> Callable[[Sequence[Word]], Iterable[Risk]]:
    """Return a check for subcommands and other words; an unknown word may be one of them."""

    def check(given: Sequence[Word]) -> Iterator[Risk]:
        if any(not word.known or word.text in words for word in given):
            yield risk

    return check


def _except_words(risk: Risk, *words: str) -> Callable[[Sequence[Word]], Iterable[Risk]]:
    """Return a check that allows only these subcommands."""

    def check(given: Sequence[Word]) -> Iterator[Risk]:
        _, others = options_of(given)
        if others and (not others[0].known or others[0].text not in words):
            yield risk

    return check


def _matching(risk: Risk, pattern: re.Pattern[str]) -> Callable[[Sequence[Word]], Iterable[Risk]]:
    def check(given: Sequence[Word]) -> Iterator[Risk]:
        if any(pattern.search(word.text) for word in given):
            yield risk

    return check


def _rm(words: Sequence[Word]) -> Iterator[Risk]:
    _, targets = options_of(words)
    if any(_EVERYTHING.fullmatch(each.text) for each in targets):
        yield "destroys"
    yield from _has_options("destroys", ("-r", "-R", "--recursive", "--no-preserve-root"), words)


def _chmod(words: Sequence[Word]) -> Iterator[Risk]:
    yield from _setuid(words)
    yield from _has_options("destroys", ("-R", "--recursive"), words)


def _setuid(words: Sequence[Word]) -> Iterator[Risk]:
    modes = (mode for word in words for mode in word.text.removeprefix("--mode=").split(","))
    if any(map(_SETUID.fullmatch, modes)):
        yield "escalates"


def _copy(words: Sequence[Word]) -> Iterator[Risk]:
    """Check for a write to a device, and for setuid rights of the copy."""
    _, others = options_of(words)
    if any(map(_is_device, others[1:])):
        yield "destroys"
    yield from _setuid(words)


def _rsync(words: Sequence[Word]) -> Iterator[Risk]:
    _, others = options_of(words)
    if len(others) > 1 and (not others[-1].known or _REMOTE.fullmatch(others[-1].text)):
        yield "publishes"
    yield from _has_options("unseen", ("-e", "--rsh", "--rsync-path"), words)
    yield from _has_options("destroys", _RSYNC_OPTIONS, words)


_RSYNC_OPTIONS = (
    "--delete",
    "--delete-after",
    "--delete-before",
    "--delete-during",
    "-e",
    "--remove-source-files",
    "--rsh",
)


def _curl(words: Sequence[Word]) -> Iterator[Risk]:
    yield from _has_options("publishes", _CURL_OPTIONS, words)
    for word, following in pairwise([*words, Word("", known=True)]):
        match = _REQUEST.fullmatch(word.text)
        if match and (match[1] or following.text).upper() not in _READING:
            yield "publishes"


_CURL_OPTIONS = (
    "-T",
    "-F",
    "-d",
    "--upload-file",
    "--form",
    "--data",
    "--data-binary",
    "--data-raw",
    "--data-urlencode",
    "--json",
    "-K",
    "--config",
)


def _tar(words: Sequence[Word]) -> Iterator[Risk]:
    """Check for risky options; the first word may be options without a dash."""
    if words and re.fullmatch(r"[A-Za-z]*[IF][A-Za-z]*", words[0].text):
        yield "unseen"
    yield from _has_options("unseen", _TAR_OPTIONS, words)


_TAR_OPTIONS = (
    "-I",
    "-F",
    "--checkpoint-action",
    "--to-command",
    "--use-compress-program",
    "--remove-files",
    "--info-script",
    "--new-volume-script",
    "--rsh-command",
)


def _database(operands: int, *options: str) -> _Check:
    """Return a check of the SQL given to a database client as arguments or on stdin."""

    def check(words: Sequence[Word]) -> Iterator[Risk]:
        given, others = options_of(words)
        yield from _matching("destroys", _SQL)(words)
        is_told = len(others) >= operands if operands else False
        is_told = is_told or any(_is_option(each, options) for each in given)
        asks_only = any(each in ("--version", "--help", "-V", "-l", "--list") for each in given)
        if not is_told and not asks_only:
            yield "unseen"  # the client reads its input, or a file

    return check


def _find(words: Sequence[Word]) -> Iterator[Risk]:
    if any(word.text in ("-delete", "-fprint", "-fprintf", "-fls") for word in words):
        yield "destroys"
    if any(word.may_be_option for word in words):
        yield "unclear"


def _kill(words: Sequence[Word]) -> Iterator[Risk]:
    if words and words[-1].text in ("-1", "0"):
        yield "system"


def _tee(words: Sequence[Word]) -> Iterator[Risk]:
    if any(map(_is_device, words)):
        yield "destroys"


def _mv(words: Sequence[Word]) -> Iterator[Risk]:
    if any(word.text.startswith("/dev/") for word in words):
        yield "destroys"


_VERSION = re.compile(r"-?\d[\d.]*(-.*)?$")
_HARMLESS_OPTIONS = frozenset(
    [
        "-m",
        "-u",
        "-B",
        "-s",
        "-S",
        "-O",
        "-OO",
        "-v",
        "-w",
        "-V",
        "-h",
        "--version",
        "--help",
        "--check",
        "--test",
    ]
)
_INPUT = re.compile(r"/dev/(stdin|fd/.*)|/proc/.*/fd/.*")


def _interpreter(*options: str) -> Callable[[Sequence[Word]], Iterable[Risk]]:
    """Return a check for code in the arguments, or in the input if there is no file."""

    def check(words: Sequence[Word]) -> Iterator[Risk]:
        named = [index for index, word in enumerate(words) if not word.text.startswith("-")]
        before = words[: named[0] + 1] if named else words
        given, others = options_of(before)
        # The value of an option may be mistaken for the file, or be code.
        first = [word.text for word in before if word.text.startswith("-") and word.text != "-"]
        if any(each not in _HARMLESS_OPTIONS for each in first):
            yield "unseen"
            return
        if any(_INPUT.fullmatch(word.text) for word in words):
            yield "unseen"
            return
        asks_only = any(each in ("--version", "--help", "-V", "-h") for each in given)
        has_code = any(_is_option(each, options) for each in given)
        module = others[0].text if others and "-m" in given else ""
        has_code = has_code or (bool(others) and others[0].text in ("eval", "repl"))
        if has_code or module in _MODULES_WITH_CODE or any(w.may_be_option for w in before):
            yield "unseen"
        elif (not others or others[0].text == "-") and not asks_only:
            yield "unseen"  # the interpreter reads its input

    return check


def _git(words: Sequence[Word]) -> Iterator[Risk]:
    """Check the options of `git` itself, and the subcommand after them."""
    rest = list(words)
    while rest and rest[0].known and rest[0].text.startswith("-"):
        option = rest.pop(0).text
        value = rest[0].text if option == "-c" and rest else option
        if option.startswith(("-c", "--config-env", "--exec-path")) and not _is_plain(value):
            yield "unseen"  # a setting may name a program
        if option in ("-c", "-C", "--git-dir", "--work-tree", "--namespace", "--config-env"):
            rest = rest[1:]
    if not rest:
        return
    if not rest[0].known:
        yield "unclear"
        return
    subcommand, words = rest[0].text, rest[1:]
    check = _GIT.get(subcommand)
    if check is not None:
        yield from check(words)


_PUSH_OPTIONS = (
    "-f",
    "-d",
    "--force",
    "--force-with-lease",
    "--force-if-includes",
    "--delete",
    "--mirror",
    "--prune",
)


def _git_push(words: Sequence[Word]) -> Iterator[Risk]:
    _, others = options_of(words)
    if any(each.text.startswith(("+", ":")) for each in others):
        yield "destroys"
    yield from _has_options("unseen", ("--receive-pack", "--exec"), words)
    yield from _has_options("destroys", _PUSH_OPTIONS, words)


def _git_config(words: Sequence[Word]) -> Iterator[Risk]:
    options, others = options_of(words)
    reads = any(each in ("-l", "--list", "--get", "--get-all", "--get-regexp") for each in options)
    if len(others) > 1 and not reads and not _is_plain(others[0].text):
        yield "unseen"


def _is_plain(setting: str) -> bool:
    """Return whether a setting of `git` is harmless."""
    return setting.lower().startswith(_PLAIN_SETTINGS)


def _git_checkout(words: Sequence[Word]) -> Iterator[Risk]:
    given, others = options_of(words)
    makes = any(_is_option(each, ("-b", "-B", "-t", "--track", "--orphan")) for each in given)
    if any(word.text in (".", "--", "./") for word in words) or (len(others) > 1 and not makes):
        yield "destroys"
    yield from _has_options("destroys", ("-f", "-B", "--force"), words)


def _naming(words: Sequence[Word]) -> Iterator[Risk]:
    """Check for a variable that is set by name and changes which program runs."""
    if any(not word.known or _LEADING.fullmatch(word.text) for word in words):
        yield "unseen"


def _xargs(words: Sequence[Word]) -> Iterator[Risk]:
    """Check for input that is inserted into the text of a shell or an interpreter."""
    texts = [word.text for word in words]
    replaces = any(text.startswith(("-I", "-i", "--replace")) for text in texts)
    if replaces and any(text.endswith("sh") or _VERSION.sub("", text) in _CHECKS for text in texts):
        yield "unclear"


def _make(words: Sequence[Word]) -> Iterator[Risk]:
    yield from _has_options("unseen", ("--eval", "-E"), words)
    if any(word.text.startswith("SHELL=") for word in words):
        yield "unseen"
    if any(word.text in ("-", "-f-", "--file=-", "--makefile=-") for word in words):
        yield "unseen"  # `make` reads its input


def _program_text(pattern: re.Pattern[str]) -> _Check:
    """Return a check of a program text in a word; an unknown word may be any program text."""

    def check(words: Sequence[Word]) -> Iterator[Risk]:
        if any(not word.known or len(word.text) > _LONGEST_PROGRAM for word in words):
            yield "unclear"
            return
        if any(_INPUT.fullmatch(word.text) for word in words):
            yield "unseen"
        yield from _matching("unseen", pattern)(words)

    return check


def _awk(words: Sequence[Word]) -> Iterator[Risk]:
    yield from _program_text(_AWK)(words)
    for word in words:
        for part in re.split(r"[;{}\n]", word.text):
            _, prints, printed = part.partition("print")
            if prints and _ONE_BAR.search(printed):
                yield "unseen"  # a variable may name the command


_Check: TypeAlias = "Callable[[Sequence[Word]], Iterable[Risk]]"
_GIT: Mapping[str, _Check] = {
    "archive": _with_options("unseen", "--remote", "--exec"),
    "bisect": _with_words("unclear"),
    "clone": _with_options("unseen", "-c", "--config", "-u", "--upload-pack", "--template"),
    "difftool": _with_options("unseen", "-x", "--extcmd"),
    "fetch": _with_options("unseen", "--upload-pack"),
    "grep": _with_options("unseen", "-O", "--open-files-in-pager"),
    "init": _with_options("unseen", "--template"),
    "ls-remote": _with_options("unseen", "--upload-pack", "--exec"),
    "pull": _with_options("unseen", "--upload-pack"),
    "branch": _with_options("destroys", "-D", "-d", "-f", "-M", "--delete", "--force"),
    "checkout": _git_checkout,
    "checkout-index": _with_options("destroys", "-f", "-a", "--force", "--all"),
    "clean": _with_options("destroys", "-f", "-d", "-x", "-X", "--force"),
    "config": _git_config,
    "filter-branch": _always("destroys"),
    "filter-repo": _always("destroys"),
    "gc": _with_options("destroys", "--prune"),
    "prune": _always("destroys"),
    "push": _git_push,
    "read-tree": _with_options("destroys", "--reset", "-u"),
    "rebase": _with_options("unclear"),
    "reflog": _with_words("destroys", "expire", "delete"),
    "reset": _with_options("destroys", "--hard", "--merge", "--keep"),
    "restore": _always("destroys"),
    "rm": _with_options("destroys", "-r", "-f", "--force"),
    "send-email": _always("publishes"),
    "stash": _with_words("destroys", "drop", "clear"),
    "switch": _with_options("destroys", "-f", "--force", "-C", "--discard-changes"),
    "tag": _with_options("destroys", "-d", "-f", "--delete", "--force"),
    "update-ref": _always("destroys"),
    "worktree": _with_words("destroys", "remove", "prune"),
}


def _named(check: _Check, names: str) -> dict[str, _Check]:
    return dict.fromkeys(names.split(), check)


_CHECKS: Mapping[str, _Check] = {
    **_named(
        _always("destroys"),
        "shred wipe srm wipefs fdisk sfdisk cfdisk gdisk sgdisk parted blkdiscard mke2fs mkswap "
        "lvremove vgremove pvremove cryptsetup truncate dropdb dropuser badblocks tune2fs",
    ),
    **_named(
        _always("escalates"),
        "sudo su doas pkexec runuser gosu chroot unshare nsenter setpriv capsh newgrp sg setcap "
        "passwd useradd usermod userdel groupadd visudo chsh machinectl proot "
        "run0 su-exec sudoedit",
    ),
    **_named(
        _always("system"),
        "shutdown reboot halt poweroff init telinit mount umount swapon swapoff losetup modprobe "
        "insmod rmmod sysctl crontab at batch killall pkill killall5 iptables nft ip6tables "
        "hdparm systemd-run update-alternatives dpkg rpm service ufw firewall-cmd mdadm dmsetup",
    ),
    **_named(
        _always("unseen"),
        ". source csh tcsh fish expect ed ex vim vi nvim emacs screen tmux gdb lldb enable hash "
        "complete bind ssh rsh sshpass m4",
    ),
    **_named(
        _always("publishes"), "scp sftp ftp lftp tftp nc ncat netcat socat telnet mail sendmail"
    ),
    **_named(
        _with_words(
            "system", "install", "remove", "purge", "erase", "upgrade", "autoremove", "add"
        ),
        "apt apt-get aptitude yum dnf zypper apk snap flatpak brew port",
    ),
    **_named(
        _except_words("system", "ps", "images", "logs", "inspect", "version", "info", "stats"),
        "docker podman nerdctl",
    ),
    **_named(_interpreter("-c"), "python python2 python3 pypy pypy3"),
    **_named(
        _interpreter("-e", "-E", "-n", "-p", "-r", "--eval", "--print"),
        "perl ruby lua luajit Rscript R julia ipython pwsh",
    ),
    **_named(
        _interpreter("-e", "-p", "-r", "--eval", "--print", "--require", "--import"),
        "node nodejs deno bun",
    ),
    **_named(_interpreter("-r", "-B", "-R", "-E"), "php tclsh osascript"),
    **_named(
        _with_options("unseen", "-e", "-c", "--eval", "--execute"),
        "clojure dc elixir ghc gnuplot groovy guile ocaml octave racket sbcl scala swift",
    ),
    **_named(_awk, "awk gawk mawk nawk"),
    **_named(_program_text(_SED), "sed gsed"),
    **_named(_naming, "read printf mapfile readarray getopts"),
    **_named(_database(0, "-c", "--command"), "psql"),
    **_named(_database(0, "-e", "--execute"), "mysql mariadb"),
    **_named(_database(2), "sqlite3 duckdb"),
    **_named(_database(0, "--eval"), "mongo mongosh"),
    **_named(_database(1), "redis-cli"),
    **_named(
        _matching("destroys", _REMOVING), "az doctl fly flyctl gcloud gh heroku vagrant vercel"
    ),
    **_named(_with_words("destroys", "destroy"), "zfs zpool"),
    **_named(
        _with_words("publishes", "publish", "unpublish", "push", "deploy"),
        "bundle gem mvn pdm pnpm poetry uv yarn",
    ),
    **_named(_with_options("destroys", "-R", "--recursive"), "chown chgrp chattr setfacl"),
    "btrfs": _with_words("destroys", "delete"),
    "aws": _matching("destroys", re.compile(r"^(rm|rb|delete.*|terminate.*|put.*|remove.*)$")),
    "cargo": _with_words("publishes", "publish", "yank"),
    "chmod": _chmod,
    "cp": _copy,
    "curl": _curl,
    "dd": _matching("destroys", re.compile(r"^of=(?!/dev/null$)")),
    "find": _find,
    "git": _git,
    "helm": _with_words("system", "install", "upgrade", "uninstall", "delete", "rollback"),
    "install": _copy,
    "kill": _kill,
    "kubectl": _except_words("system", "get", "describe", "logs", "version", "explain", "top"),
    "make": _make,
    "mv": _mv,
    "nvme": _with_words("destroys", "format", "sanitize", "delete-ns", "write-zeroes"),
    "npm": _with_words("publishes", "publish", "unpublish"),
    "rg": _with_options("unseen", "--pre"),
    "rm": _rm,
    "rsync": _rsync,
    "run-parts": _always("unseen"),
    "sort": _with_options("unseen", "--compress-program"),
    "split": _with_options("unseen", "--filter"),
    "systemctl": _except_words("system", "status", "list-units", "show", "is-active", "cat"),
    "tar": _tar,
    "tee": _tee,
    "terraform": _with_words("system", "apply", "destroy", "import", "taint"),
    "tofu": _with_words("system", "apply", "destroy", "import", "taint"),
    "twine": _with_words("publishes", "upload"),
    "wget": _with_options("publishes", "--post-data", "--post-file", "--use-askpass", "-i"),
    "xargs": _xargs,
    "zip": _with_options("unseen", "-T", "-m", "--unzip-command"),
}
