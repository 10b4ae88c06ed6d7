"""Parse a shell script that is simple enough to be certain which commands it runs.

A grammar and Bash may disagree about any unusual text, so only listed nodes and characters are
accepted. Every other script is unclear as a whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tree_sitter import Node

_MAX_SCRIPT_CHARACTERS = 2_000
"""The time to parse some texts grows with the square of their length: here at most 0.1 s."""
_BLOCKS = frozenset(
    {"command_substitution", "compound_statement", "do_group", "elif_clause", "else_clause"}
    | {"for_statement", "if_statement", "list", "pipeline", "program", "subshell"}
    | {"while_statement"}
)
_ON_ONE_LINE = frozenset({"negated_command", "redirected_statement"})
_TOKENS = frozenset(
    {";", "&", "&&", "||", "|", "|&", "\n", "!", "(", ")", "{", "}", "$("}
    | {"do", "done", "elif", "else", "fi", "for", "if", "in", "then", "until", "while"}
)
_IN_TEST = frozenset({"binary_expression", "unary_expression"})
_OPERATORS_OF_TEST = frozenset({"!", "=", "==", "!=", "test_operator"})
_EXPANSIONS = frozenset({"command_substitution", "expansion", "simple_expansion"})
_WORDS = _EXPANSIONS | {"concatenation", "number", "raw_string", "string", "word"}
_PLAIN = re.compile(r"(?!#)(?:[^\s\\'\"$`;&|<>()]|\\[^\n])+")
_IN_QUOTES = re.compile(r"(?:[^\"\\$`]|\\[^\n]|\$(?=[\s|)/]|\Z))*")
_EXPANSION = re.compile(r"\$(?:\w+|\{\w+\}|[?#$!])", re.ASCII)
_LOOP_VARIABLE = re.compile(r"[a-z_][a-z0-9_]*")
_NUMBER = re.compile(r"[0-9]+")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPE_IN_QUOTES = re.compile(r"\\([$`\"\\])")
_CONNECTION = ("/dev/tcp/", "/dev/udp/")


@dataclass(frozen=True, kw_only=True, slots=True)
class Word:
    """A word of a command.

    Args:
        text: The text that the program receives; the source if that is not known.
        is_known: Whether the text is known before the script runs.
        is_one: Whether it is exactly one word when the script runs.
        lead: The beginning that is known.
    """

    text: str
    is_known: bool = True
    is_one: bool = True
    lead: str = ""

    @property
    def is_operand(self) -> bool:
        """Return whether it is certainly not an option."""
        return (self.text if self.is_known else self.lead or "-")[:1] != "-"


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """One command of a script.

    Args:
        program: The program as written; empty if it is not certain which one runs.
        arguments: The words after the program.
    """

    program: str
    arguments: tuple[Word, ...] = ()

    @property
    def text(self) -> str:
        """Return the command on one line."""
        return " ".join((self.program, *(word.text for word in self.arguments)))


UNKNOWN = Command(program="")


@dataclass(kw_only=True, slots=True)
class Script:
    """The commands of a script.

    Args:
        commands: All commands, also those in substitutions; one without a program if it is unclear.
        writes: Whether output is redirected to a file.
        is_unclear: Whether Bash may run other commands than these.
    """

    commands: list[Command] = field(default_factory=list)
    writes: bool = False
    is_unclear: bool = False


class _UnclearError(Exception):
    """Raised when Bash may read a script in another way."""


def parse(text: str) -> Script:
    """Return the commands of a script.

    Example:
        >>> [each.text for each in parse("cd x && grep -c 'a b' $(ls) | tee y").commands]
        ['cd x', 'ls', 'grep -c a b $(ls)', 'tee y']
        >>> parse("ls $((1 + 1))").is_unclear
        True
    """
    script = Script()
    try:
        _read(text, script)
        if script.commands:
            return script
    except (_UnclearError, RecursionError):
        pass
    return Script(commands=[UNKNOWN], is_unclear=True)


def _read(text: str, script: Script) -> None:
    _require(len(text) <= _MAX_SCRIPT_CHARACTERS)
    _require(text.replace("\n", "").replace("\t", "").isprintable())
    source = text.encode()
    tree = _parser()(source)
    around = source[: tree.start_byte] + source[tree.end_byte :]
    _require(not tree.has_error and not around.strip())
    _ScriptReader(source, script).statement(tree)


class _ScriptReader:
    """Adds the commands of a tree to a script."""

    def __init__(self, source: bytes, script: Script) -> None:
        self._source = source
        self._script = script

    def statement(self, node: Node) -> None:
        """Read a node that holds commands."""
        if node.type in _BLOCKS or node.type in _ON_ONE_LINE:
            self._check_gaps(node, b" \t\n" if node.type in _BLOCKS else b" \t")
            for child in node.children:
                self._part(node, child)
        elif node.type == "command":
            self._command(node)
        elif node.type == "test_command":
            self._add(self._test(node))
        elif node.type == "file_redirect":
            self._redirect(node)
        else:
            raise _UnclearError

    def _part(self, node: Node, child: Node) -> None:
        if not child.is_named:
            _require(child.type in _TOKENS)
        elif node.type == "for_statement" and child.type == "variable_name":
            _require(_LOOP_VARIABLE.fullmatch(_text(child)))
        elif node.type == "for_statement" and child.type in _WORDS:
            self._word(child)
        else:
            self.statement(child)

    def _command(self, node: Node) -> None:
        self._check_gaps(node, b" \t")
        words = []
        for child in node.children:
            if child.type == "file_redirect":
                self._redirect(child)
            elif child.type == "command_name":
                _require(child.child_count == 1)
                words.append(self._word(child.children[0]))
            else:
                words.append(self._word(child))
        self._add(words)

    def _add(self, words: list[Word]) -> None:
        _require(words and words[0].is_known)
        command = Command(program=words[0].text, arguments=tuple(words[1:]))
        self._script.commands.append(command)

    def _redirect(self, node: Node) -> None:
        self._check_gaps(node, b" \t")
        descriptor = [each for each in node.children if each.type == "file_descriptor"]
        _require(all(_NUMBER.fullmatch(_text(each)) for each in descriptor))
        operator, *targets = node.children[len(descriptor) :]
        _require(len(targets) == 1)
        target = self._word(targets[0])
        if operator.type in (">&", "<&") and _NUMBER.fullmatch(target.text):
            return
        if operator.type == "<":
            _require(target.is_known and not target.text.startswith(_CONNECTION))
        else:
            _require(operator.type in (">", ">>", "&>", "&>>", ">|", ">&"))
            self._script.writes |= not target.is_known or target.text != "/dev/null"

    def _test(self, node: Node) -> list[Word]:
        self._check_gaps(node, b" \t")
        first, *inner, last = node.children
        _require(first.type == "[" and last.type == "]")
        return [Word(text="["), *self._words_of_test(inner), Word(text="]")]

    def _words_of_test(self, nodes: Iterable[Node]) -> list[Word]:
        words = []
        for node in nodes:
            if node.type in _IN_TEST:
                self._check_gaps(node, b" \t")
                words += self._words_of_test(node.children)
            elif node.type in _OPERATORS_OF_TEST:
                words.append(Word(text=_text(node)))
            else:
                words.append(self._word(node))
        return words

    def _word(self, node: Node) -> Word:
        """Return a word, and read the commands in its substitutions."""
        text = _text(node)
        if node.type in ("word", "number"):
            _require(_PLAIN.fullmatch(text))
            return _plain(text)
        if node.type == "raw_string":
            _require(text[0] == text[-1] == "'" and "'" not in text[1:-1])
            return Word(text=text[1:-1])
        if node.type == "string":
            return self._string(node)
        if node.type == "concatenation":
            self._check_gaps(node, b"")
            return _join(text, [self._word(child) for child in node.children])
        if node.type == "command_substitution":
            _require(text.startswith("$("))
            self.statement(node)
        else:
            _require(node.type in _EXPANSIONS and _EXPANSION.fullmatch(text))
        return Word(text=text, is_known=False, is_one=False)

    def _string(self, node: Node) -> Word:
        _require(_text(node)[0] == '"')
        text, literal, at = _text(node)[1:-1], [], node.start_byte + 1
        expansions = [each for each in node.named_children if each.type != "string_content"]
        for each in expansions:
            literal.append(self._source[at : each.start_byte].decode())
            at = each.end_byte
            self._word(each)
        literal.append(self._source[at : node.end_byte - 1].decode())
        _require(all(map(_IN_QUOTES.fullmatch, literal)))
        if expansions:
            return Word(text=text, is_known=False, lead=literal[0])
        return Word(text=_ESCAPE_IN_QUOTES.sub(r"\1", text))

    def _check_gaps(self, node: Node, allowed: bytes) -> None:
        """Require that between its children a node has nothing but blanks."""
        at = node.start_byte
        for child in node.children:
            _require(not self._source[at : child.start_byte].strip(allowed))
            at = child.end_byte
        _require(not self._source[at : node.end_byte].strip(allowed))


def _plain(text: str) -> Word:
    """Return an unquoted word, in which the shell may expand patterns, braces and a tilde."""
    bare = _ESCAPE.sub("", text)
    plain = _ESCAPE.sub(r"\1", text)
    if "{" in bare:
        return Word(text=text, is_known=False, is_one=False)
    if any(mark in bare for mark in "*?["):
        lead = re.split(r"[*?\[\\]", text)[0]
        return Word(text=text, is_known=False, is_one=False, lead=lead)
    if text.startswith("~"):
        return Word(text=text, is_known=False, lead="~")
    return Word(text=plain)


def _join(text: str, parts: list[Word]) -> Word:
    if all(part.is_known for part in parts) and not text.startswith("~"):
        return Word(text="".join(part.text for part in parts))
    splits = any(not part.is_known and not part.is_one and not part.lead for part in parts)
    first = parts[0]
    lead = "" if splits else first.text if first.is_known else first.lead
    return Word(text=text, is_known=False, is_one=all(p.is_one for p in parts), lead=lead)


def _text(node: Node) -> str:
    return (node.text or b"").decode()


def _require(condition: object) -> None:
    if not condition:
        raise _UnclearError


def _parser() -> Callable[[bytes], Node]:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    parser = Parser(Language(tree_sitter_bash.language()))
    return lambda source: parser.parse(source).root_node
