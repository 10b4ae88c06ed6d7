"""Decide whether a script only reads: a table of commands that do; everything else is a risk."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

from leonidas_tools.toolboxes.shell.commands import Word

if TYPE_CHECKING:
    from leonidas_tools.toolboxes.shell.commands import Command, Script

Risk: TypeAlias = Literal["not_read_only", "unclear"]
_FORMAT = re.compile(r"(?!-)(?:[^%]|%[-+ #\d.]*[bcdeEfgGiosuxX%])*")
_Check: TypeAlias = Callable[[Sequence[Word]], bool]


class Effect(Enum):
    """The possible effects of a command."""

    READ = "read"
    CHANGE = "change"  # without running another program
    ANYTHING = "anything"


def risks_of(script: Script) -> list[Risk]:
    """Return why a person should approve a script first; nothing if it only reads.

    Example:
        >>> from leonidas_tools.toolboxes.shell.commands import parse
        >>> risks_of(parse("git status && ls -l | wc -l")), risks_of(parse("cd x && make"))
        ([], ['not_read_only'])
    """
    if script.is_unclear:
        return ["unclear"]
    only_reads = all(effect_of(each) is Effect.READ for each in script.commands)
    return [] if only_reads and not script.writes else ["not_read_only"]


def runs_only_its_commands(script: Script) -> bool:
    """Return whether none of the commands of a script may run another program."""
    certain = not script.is_unclear and not script.writes
    return certain and all(effect_of(each) is not Effect.ANYTHING for each in script.commands)


def effect_of(command: Command) -> Effect:
    """Return the possible effects of a command, by its program and its arguments."""
    if command.program in _CHANGES:
        return Effect.CHANGE
    words: Sequence[Word] = command.arguments
    if command.program == "git":
        words = _skip_git_options(words)
    first = [command.program, *(word.text if word.is_known else "$" for word in words[:2])]
    for length in (3, 2, 1):
        check = _READS.get(" ".join(first[:length]))
        if check is not None:
            return Effect.READ if check(words[length - 1 :]) else Effect.ANYTHING
    return Effect.ANYTHING


def _skip_git_options(words: Sequence[Word]) -> Sequence[Word]:
    if words and words[0] == Word(text="--no-pager"):
        return _skip_git_options(words[1:])
    if len(words) > 1 and words[0] == Word(text="-C") and words[1].is_one:
        return _skip_git_options(words[2:])
    return words


def _options(
    letters: str = "", names: str = "", *, max_operands: int | None = None, first: str | None = None
) -> _Check:
    """Return a check that allows only these options.

    Args:
        letters: Options of one letter, as for `getopt`: a value follows a letter before a colon.
        names: Other options, in full.
        max_operands: The maximum number of other words.
        first: An expression that the first of these words matches.
    """
    allowed = frozenset(names.split())

    def is_first(word: Word) -> bool:
        return word.is_known and re.fullmatch(first or "", word.text) is not None

    def check(words: Sequence[Word]) -> bool:
        operands = _operands(words, letters, allowed)
        if operands is None:
            return False
        if first is not None and not all(map(is_first, operands[:1])):
            return False
        if max_operands is None:
            return True
        return len(operands) <= max_operands and all(word.is_one for word in operands)

    return check


def _operands(words: Sequence[Word], letters: str, names: frozenset[str]) -> list[Word] | None:
    """Return the words that are not options; `None` if an option is not allowed."""
    operands, left = [], iter(words)
    for word in left:
        if word.is_operand or word == Word(text="-"):
            operands.append(word)
        elif not word.is_known:
            return None
        elif word.text != "--" and word.text.partition("=")[0] not in names:
            takes_value = _takes_value(letters, word.text[1:])
            value = next(left, None) if takes_value else None
            if takes_value is None or (value is not None and not value.is_operand):
                return None
    return operands


def _takes_value(letters: str, given: str) -> bool | None:
    """Return whether the next word is a value of these letters; `None` if one is not allowed."""
    for index, letter in enumerate(given):
        if letter not in letters or letter == ":":
            return None
        if letters[letters.index(letter) + 1 :][:1] == ":":
            return index == len(given) - 1
    return False


def _printf(words: Sequence[Word]) -> bool:
    """Allow neither `-v` nor `%n`, which set a variable, such as `PATH`."""
    return bool(words) and words[0].is_known and _FORMAT.fullmatch(words[0].text) is not None


def _test(words: Sequence[Word]) -> bool:
    """Refuse `-v` and `-R`, which evaluate the name of a variable."""
    if any(word.text in ("-v", "-R") for word in words):
        return False
    unary = {Word(text=f"-{letter}") for letter in "defhLnrswxz"}
    pairs = pairwise((Word(text=""), *words))
    return all(word.is_known or (word.is_one and before in unary) for before, word in pairs)


_CHANGES = frozenset({"chmod", "mkdir", "rm", "rmdir", "touch"})
"""Programs that write no content and run no other program, whatever their options."""
_GREP = _options(
    "0123456789abcEFGhHiLlnoPqrRsvwxzA:B:C:d:e:f:m:",
    "--after-context --before-context --binary-files --color --context --count --exclude "
    "--exclude-dir --files-with-matches --fixed-strings --ignore-case --include --invert-match "
    "--line-number --max-count --no-filename --no-messages --null --only-matching --quiet "
    "--recursive --regexp --with-filename --word-regexp",
)
_FD = _options(
    "0HIsgiae:t:d:E:",
    "--absolute-path --exclude --extension --glob --hidden --max-depth --no-ignore --type",
)
_GIT_LOG = _options(
    "0123456789abCgiMpqrstuwzG:L:n:S:U:",
    "--abbrev-commit --after --all --author --before --branches --cached --check --color --date "
    "--decorate --diff-filter --exit-code --find-renames --first-parent --follow --format --graph "
    "--grep --ignore-all-space --max-count --merge-base --merges --name-only --name-status "
    "--no-color --no-ext-diff --no-merges --no-patch --no-textconv --numstat --oneline --patch "
    "--pretty --quiet --raw --remotes --reverse --shortstat --since --staged --stat --summary "
    "--tags --unified --until --word-diff",
)
_NONE = _options(max_operands=0)


def _rows(check: _Check, commands: str) -> dict[str, _Check]:
    """Return the same check for several commands of one word."""
    return dict.fromkeys(commands.split(), check)


_READS: Mapping[str, _Check] = {
    **_rows(
        lambda _: True,
        ": basename cat cd cmp column comm cut df dirname du echo exit expand expr false fmt fold "
        "groups head id join ls md5sum nl nproc od paste printenv ps pwd readlink realpath rev seq "
        "sha1sum sha256sum sha512sum sleep stat tac tail tr true type uname unexpand wc which "
        "whoami yes",
    ),
    **_rows(_GREP, "egrep fgrep grep"),
    **_rows(_FD, "fd fdfind"),
    **_rows(_test, "[ test"),
    "awk": _options("F:", first=r"\{ *print *(\$(\d+|NF),? *)*\}", max_operands=1),
    "bash --version": _NONE,
    "command -v": _options(),
    "date": _options("IRud:r:", "--date --iso-8601 --utc", first=r"\+.*"),
    "diff": _options(
        "0123456789abBdEiNpqrstuwyZC:U:W:x:",
        "--brief --color --exclude --ignore-all-space --recursive --side-by-side --unified",
    ),
    "file": _options("0bhiLNprF:", "--brief --mime --mime-encoding --mime-type"),
    "find": _options(
        "0123456789",
        "-a -amin -and -anewer -atime -cmin -cnewer -ctime -daystart -depth -empty -executable "
        "-false -follow -group -H -iname -inum -ipath -iregex -iwholename -L -links -ls -maxdepth "
        "-mindepth -mmin -mount -mtime -name -newer -newermt -nogroup -not -nouser -o -or -P -path "
        "-perm -print -print0 -printf -prune -quit -readable -regex -regextype -samefile -size "
        "-true -type -user -wholename -writable -xdev",
    ),
    "git blame": _options("bcefMClswL:", "--date --porcelain --show-email"),
    "git branch": _options(
        "arv", "--all --list --remotes --show-current --verbose", max_operands=0
    ),
    "git cat-file": _options("epst"),
    "git config --get": _options(),
    "git config --list": _NONE,
    "git describe": _options(names="--abbrev --all --always --dirty --exact-match --long --tags"),
    "git diff": _GIT_LOG,
    "git grep": _options("0123456789cEFhHilLnPqvwA:B:C:e:", "--count --ignore-case --line-number"),
    "git log": _GIT_LOG,
    "git ls-files": _options(
        "cdkmostuz", "--cached --deleted --exclude-standard --modified --others --stage"
    ),
    "git ls-tree": _options("dlrtz", "--full-tree --long --name-only --name-status"),
    "git merge-base": _options("a", "--all --fork-point --is-ancestor"),
    "git reflog": _NONE,
    "git remote": _options("v", "--verbose", max_operands=0),
    "git rev-list": _GIT_LOG,
    "git rev-parse": _options(
        names="--abbrev-ref --git-dir --is-inside-work-tree --short --show-prefix --show-toplevel "
        "--symbolic-full-name --verify",
    ),
    "git show": _GIT_LOG,
    "git stash list": _NONE,
    "git status": _options("bsvzu:", "--branch --ignored --long --porcelain --short"),
    "git tag": _options(names="--list", max_operands=0),
    "git --version": _NONE,
    "jq": _options(
        "cCeMnrRsSj", "--arg --argjson --args --compact-output --exit-status --raw-output --slurp"
    ),
    "node --version": _NONE,
    "printf": _printf,
    "python --version": _NONE,
    "python3 --version": _NONE,
    "rg": _options(
        "0FHiILNPSUacelnopqsuvwxA:B:C:d:e:f:g:m:t:T:",
        "--after-context --before-context --color --context --count --files --files-with-matches "
        "--fixed-strings --glob --heading --hidden --ignore-case --json --line-number --max-count "
        "--max-depth --multiline --no-config --no-heading --no-ignore --only-matching --sort "
        "--stats --type --type-list --word-regexp",
    ),
    "sed": _options("En", first=r"[\d$,;pq ]+"),
    "sort": _options(
        "bcCdfghimMnrRsuVzk:t:",
        "--check --field-separator --human-numeric-sort --ignore-case --key --numeric-sort "
        "--reverse --stable --unique --version-sort",
    ),
    "tree": _options("aCdDfFghilpqrstuI:L:P:", "--dirsfirst --du --gitignore --noreport"),
    "uniq": _options("cdDiuzf:s:w:", "--count --repeated --unique", max_operands=1),
}
"""The commands that only read, by their first words, and the arguments with which they do."""
