"""Find every command in a shell script without running it."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from leonidas_tools.toolboxes.shell.words import Word, named
from leonidas_tools.toolboxes.shell.wrappers import Reads, inner_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tree_sitter import Node

_LONGEST_CHARACTERS = 20_000
_MOST_MARKS = {"|": 500, ")": 2_000}
"""Most marks of a text whose parsing takes a time that grows with the square of their number."""
_MOST_NODES = 8_000
"""Most nodes of a script that are read: each text in it may hold nearly all of it again."""
_DEEPEST = 12
_MOST_COMMANDS = 500
_ESCAPE = re.compile(r"\\(.|\n)", re.DOTALL)
_ESCAPE_IN_QUOTES = re.compile(r"\\([$`\"\\\n])")
_GLOB = re.compile(r"[*?\[]")
_OTHER_ESCAPES = re.compile(r"\\([ceE?]|x[0-9A-Fa-f](?![0-9A-Fa-f])|[uU])")
_EXPANDED = re.compile(r"\$\(|`|\$\{.*@P")
_SUBSTITUTED = re.compile(r"[$<>]\(|`")
_UNKNOWN_NODES = frozenset(
    {
        "arithmetic_expansion",
        "command_substitution",
        "expansion",
        "process_substitution",
        "simple_expansion",
    }
)
_WORDS = frozenset(
    {"ansi_c_string", "concatenation", "number", "raw_string", "string", "translated_string"}
    | {"word", *_UNKNOWN_NODES}
)
_EVALUATED = frozenset(
    {"arithmetic_expansion", "c_style_for_statement", "expansion", "regex", "subscript"}
)
"""Nodes in which the shell runs substitutions that the grammar reads as a text or a pattern."""
_OF_COMMANDS = frozenset(
    {"command_substitution", "compound_statement", "do_group", "process_substitution"}
)
"""Nodes with commands, whose words are read as everywhere."""
_LITERAL = frozenset(
    {"ansi_c_string", "comment", "heredoc_body", "heredoc_content", "heredoc_start", "raw_string"}
)
_COMMANDS = frozenset({"command", "declaration_command", "test_command", "unset_command"})
_RESERVED = frozenset(
    {"!", "(", "}", "case", "do", "done", "elif", "else", "esac", "fi", "for", "function"}
    | {"if", "in", "select", "then", "until", "while"}
)
"""Reserved words of the shell that the grammar may parse as a program."""
_WRITES = frozenset({">", ">>", "&>", "&>>", ">|", "<>", ">&"})
_EVALUATING = frozenset(
    [
        "[",
        "[[",
        "declare",
        "export",
        "getopts",
        "let",
        "local",
        "mapfile",
        "printf",
        "read",
        "readarray",
        "readonly",
        "test",
        "typeset",
        "unset",
        "wait",
    ]
)
"""Built-in commands that run a command substitution inside a quoted argument."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """One command of a script."""

    program: str  # the name without its directory; empty if it is unknown
    words: tuple[Word, ...]  # the program and its arguments
    reads: Reads = None  # for a shell, the source of its commands: `text`, `file` or `input`

    @property
    def arguments(self) -> tuple[Word, ...]:
        """Return the words after the program."""
        return self.words[1:]

    @property
    def text(self) -> str:
        """Return the command on one line."""
        return " ".join(word.text for word in self.words)

    def to_json(self) -> dict[str, Any]:
        """Return the command as JSON for rules."""
        arguments = [word.text for word in self.arguments]
        return {"program": self.program, "arguments": arguments, "text": self.text}


@dataclass(kw_only=True, slots=True)
class Script:
    """The commands of a script, including those inside other commands."""

    commands: list[Command] = field(default_factory=list)  # in the order of the script
    assigned: list[tuple[str, Word]] = field(default_factory=list)
    written: list[Word] = field(default_factory=list)  # the files that output is written to
    connected: bool = False  # whether the script opens a network connection
    unclear: list[str] = field(default_factory=list)  # reasons why commands may be missing


def parse(text: str) -> Script:
    """Return the commands of a script.

    Example:
        >>> [each.text for each in parse("cd x && bash -c 'rm -rf y' | tee z").commands]
        ['cd x', 'bash -c rm -rf y', 'rm -rf y', 'tee z']
    """
    script = Script()
    try:
        _ScriptReader(script).read(text, depth=0)
    except RecursionError:
        script.unclear.append("is too deep")
    return script


class _ScriptReader:
    """Parses a script, and the scripts inside it."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._parse = _parser()
        self._nodes_left = _MOST_NODES

    def read(self, text: str, depth: int) -> None:
        is_long = len(text) > _LONGEST_CHARACTERS or any(
            text.count(mark) > most for mark, most in _MOST_MARKS.items()
        )
        if depth > _DEEPEST or is_long:
            self._unclear("is too long or too deep")
        elif _has_invisible(text):
            self._unclear("has invisible characters")
        else:
            # The grammar ends a word at a line continuation, the shell does not: parse both.
            for each in dict.fromkeys([text, text.replace("\\\n", "")]):
                tree = self._parse(each.encode())
                self._nodes_left -= tree.descendant_count
                if self._nodes_left < 0:
                    self._unclear("is too long or too deep")
                    return
                if tree.has_error:
                    self._unclear("cannot be parsed")
                self._walk(tree, depth)

    def _unclear(self, why: str) -> None:
        if why not in self._script.unclear:
            self._script.unclear.append(why)

    def _walk(
        self, node: Node, depth: int, outer: Node | None = None, *, is_evaluated: bool = False
    ) -> None:
        """Walk a node of the tree.

        Args:
            node: The node.
            depth: How many texts the node is in.
            outer: The node with its redirections.
            is_evaluated: Whether the shell runs substitutions in it even between quotes.
        """
        if node.type in _COMMANDS:
            self._command(node, depth, outer)
        elif node.type == "function_definition":
            self._function(node)
        elif node.type == "variable_assignment":
            self._assignment(node)
        elif node.type == "file_redirect":
            self._redirect(node)
        is_evaluated = _is_evaluated(node, is_evaluated)
        why = _why_unclear(node, is_evaluated=is_evaluated)
        if why is not None:
            self._unclear(why)
        outer = node if node.type == "redirected_statement" else None
        for child in node.named_children:
            self._walk(child, depth, outer, is_evaluated=is_evaluated)

    def _function(self, node: Node) -> None:
        """Mark a function that calls itself as unclear, such as a fork bomb."""
        name = node.child_by_field_name("name")
        called = [_text(each) for each in _all(node, "command_name")]
        if name is not None and _text(name) in called:
            self._unclear("has a function that calls itself")

    def _assignment(self, node: Node) -> None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        word = Word("", known=True) if value is None else _word(value)
        self._script.assigned.append(("" if name is None else _text(name), word))

    def _redirect(self, node: Node) -> None:
        target = node.child_by_field_name("destination")
        if target is not None and target.type != "number":
            word = _word(target)
            self._script.connected |= word.text.startswith(("/dev/tcp", "/dev/udp"))
            if any(child.type in _WRITES for child in node.children):
                self._script.written.append(word)

    def _command(self, node: Node, depth: int, outer: Node | None) -> None:
        redirects = [*node.children, *(() if outer is None else outer.children)]
        words = [_word(child) for child in (*_words_of(node), *_behind(redirects))]
        read: Word | None = None
        for child in redirects:
            if child.type in ("heredoc_redirect", "herestring_redirect"):
                read = _heredoc(child)
        if words:
            self._add(words, depth, read)

    def _add(self, words: Sequence[Word], depth: int, read: Word | None) -> None:
        """Add a command, and the commands in its arguments; `read` is its heredoc."""
        if depth > _DEEPEST or len(self._script.commands) >= _MOST_COMMANDS:
            self._unclear("is too long or too deep")
            return
        program = named(words[0])
        inner = inner_of(program, words[1:])
        scripts = list(inner.scripts)
        if inner.reads == "input" and read is not None:
            scripts.append(read)
            inner.reads = "text"
        self._script.commands.append(
            Command(program=program, words=tuple(words), reads=inner.reads)
        )
        self._script.assigned += inner.assigned
        if not program or program in _RESERVED:
            self._unclear("runs a program whose name is not known before")
        if program in _EVALUATING and any(_EXPANDED.search(word.text) for word in words[1:]):
            self._unclear("evaluates a quoted command")
        for text in scripts:
            if text.known:
                self.read(text.text, depth + 1)
            else:
                self._unclear("runs a text that is not known before")
        for command in inner.commands:
            self._add(command, depth + 1, read)


def _parser() -> Callable[[bytes], Node]:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    parser = Parser(Language(tree_sitter_bash.language()))
    return lambda text: parser.parse(text).root_node


def _has_invisible(text: str) -> bool:
    return any(not each.isprintable() and each not in "\n\t" for each in text)


def _is_evaluated(node: Node, before: bool) -> bool:
    """Return whether quotes hide no substitution in a node; `before` is this of the node around."""
    if node.type in _OF_COMMANDS:
        return node.children[0].type == "((" or _text(node).startswith("$((")
    if node.type == "heredoc_body":
        return node.parent is not None and not _is_quoted(node.parent)
    return before or node.type in _EVALUATED


def _why_unclear(node: Node, *, is_evaluated: bool) -> str | None:
    """Return why a node may not show what the shell does; `None` if it is clear."""
    if node.type == "expansion" and "@P" in _text(node):
        return "expands a value as a prompt"
    if node.type == "heredoc_redirect" and not _is_quoted(node) and _hides_command(node):
        return "has a command in a heredoc"
    if _has_lost_command(node, is_evaluated=is_evaluated):
        return "has a command that the grammar does not see"
    if node.type == "redirected_statement":
        body = node.child_by_field_name("body")
        if (body is None or body.type not in _COMMANDS) and any(_behind(node.children)):
            return "has words behind a redirection that belong to no command"
    return "is read differently by the grammar and the shell" if _is_misread(node) else None


def _hides_command(heredoc: Node) -> bool:
    """Return whether a heredoc has a substitution that is no node: the grammar skips some texts."""
    text = _ESCAPE.sub("", _text(heredoc))
    nodes = [*_all(heredoc, "command_substitution"), *_all(heredoc, "arithmetic_expansion")]
    return "`" in text or text.count("$(") > len(nodes)


def _has_lost_command(node: Node, *, is_evaluated: bool) -> bool:
    """Return whether a node has a substitution that is no node, or nested backquotes."""
    text = _text(node)
    if node.type == "command_substitution":
        return text.startswith("`") and "\\`" in text
    if node.named_child_count:
        return False
    if is_evaluated:
        return _SUBSTITUTED.search(text) is not None
    return node.type not in _LITERAL and "`" in _ESCAPE.sub("", text)


def _is_misread(node: Node) -> bool:
    """Return whether the grammar parses one word for which the shell has several, or none."""
    if node.type == "word":
        return "\n" in _ESCAPE.sub("", _text(node))
    if node.type != "concatenation":
        return False
    parts = node.children
    apart = any(left.end_byte != right.start_byte for left, right in pairwise(parts))
    return apart or any(part.type == "``" for part in parts)


def _all(node: Node, kind: str) -> Iterator[Node]:
    for child in node.named_children:
        if child.type == kind:
            yield child
        yield from _all(child, kind)


def _words_of(node: Node) -> Iterator[Node]:
    """Yield the words of a command, the program first."""
    if node.type == "test_command":
        yield from (node.children[0], *_leaves(node))
        return
    for child in node.children:
        if child.type == "command_name":
            yield from child.children
        elif child.type in _WORDS or (not child.is_named and node.type != "command"):
            yield child  # the name of `declare` or `unset` has no node type of its own
        elif child.type == "variable_name":
            yield child


def _behind(redirects: Sequence[Node]) -> Iterator[Node]:
    """Yield the words after redirections, which belong to the command before them."""
    for redirect in redirects:
        if redirect.type == "file_redirect":
            yield from redirect.children_by_field_name("destination")[1:]
        elif redirect.type == "heredoc_redirect":
            yield from redirect.children_by_field_name("argument")
            yield from _behind(redirect.children)


def _leaves(node: Node) -> Iterator[Node]:
    for child in node.named_children:
        if child.type in _WORDS:
            yield child
        else:
            yield from _leaves(child)


def _heredoc(node: Node) -> Word:
    """Return the text that a command reads from a heredoc or a herestring."""
    if node.type == "herestring_redirect":
        return _word(node.named_children[-1])
    bodies = [child for child in node.named_children if child.type == "heredoc_body"]
    known = _is_quoted(node) or not any(_has_unknown(body) for body in bodies)
    return Word("".join(map(_text, bodies)), known=known)


def _is_quoted(heredoc: Node) -> bool:
    """Return whether a heredoc is quoted, so that the shell does not expand it."""
    starts = [child for child in heredoc.named_children if child.type == "heredoc_start"]
    return any(mark in _text(start) for start in starts for mark in "'\"\\")


def _has_unknown(node: Node) -> bool:
    return node.type in _UNKNOWN_NODES or any(map(_has_unknown, node.named_children))


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def _word(node: Node) -> Word:
    """Return a word as the program receives it, if that is known."""
    text = _text(node)
    if not node.is_named:
        return Word(text, known=True)
    read = _READERS.get(node.type)
    if read is not None:
        return read(node, text)
    return Word(
        _ESCAPE.sub(lambda found: "" if found[1] == "\n" else found[1], text),
        known=not _has_braces(text) and node.type not in _UNKNOWN_NODES,
        glob=bool(_GLOB.search(_ESCAPE.sub("", text))),
    )


def _has_braces(text: str) -> bool:
    """Return whether the shell may expand braces in a text."""
    _, _, after = text.partition("{")
    inner, _, _ = after.rpartition("}")
    return "," in inner or ".." in inner


def _ansi_c(_: Node, quoted: str) -> Word:
    """Decode `$'…'`; the word is known if Python and the shell agree on its escapes."""
    text = quoted[2:-1]
    try:
        plain = codecs.decode(text.encode("latin-1", "backslashreplace"), "unicode_escape")
    except UnicodeDecodeError:
        return Word(text, known=False)
    return Word(plain, known=not _OTHER_ESCAPES.search(text))


def _in_quotes(node: Node, text: str) -> Word:
    inner = text.removeprefix("$")[1:-1]
    plain = _ESCAPE_IN_QUOTES.sub(lambda found: "" if found[1] == "\n" else found[1], inner)
    if _has_unknown(node):
        return Word(inner, known=False, whole="$@" not in inner and "[@]" not in inner)
    return Word(plain, known=True, whole=True)


def _joined(node: Node, text: str) -> Word:
    parts = [_word(child) for child in node.children]
    braces = _has_braces("".join(_text(each) for each in node.children if each.type == "word"))
    return Word(
        "".join(part.text for part in parts) if parts else text,
        known=all(part.known for part in parts) and not braces,
        glob=any(part.glob for part in parts),
        whole=all(part.whole or part.known for part in parts) and not braces,
    )


_READERS: Mapping[str, Callable[[Node, str], Word]] = {
    "ansi_c_string": _ansi_c,
    "concatenation": _joined,
    "raw_string": lambda _, text: Word(text[1:-1], known=True),
    "string": _in_quotes,
    "translated_string": _in_quotes,
}
