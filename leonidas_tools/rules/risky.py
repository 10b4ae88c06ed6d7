"""Tools that ask a person by default, since their name means to delete, send, pay or move."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MANY = 10
"""Most things that are moved without a question."""

_RISKY = frozenset(
    {"delete", "remove", "erase", "drop", "wipe", "purge", "destroy", "rm", "uninstall"}
    | {"send", "pay", "transfer", "purchase", "buy", "withdraw", "donate"}
    | {"apagar", "apaga", "excluir", "deletar", "remover", "eliminar", "elimina", "borrar", "borra"}
    | {"enviar", "envia", "envía", "mandar", "pagar", "paga", "transferir", "comprar"}
)
_FIRST = frozenset(
    each for word in _RISKY for each in (word, f"{word}s", f"{word.removesuffix('e')}ing")
)
"""The same as the first word of a name; a later one is a noun, as in "list_transfers"."""
_MOVES = frozenset({"move", "mv", "rename", "mover", "mueve", "renomear", "renombrar"})
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+")


def risky_word(name: str) -> str | None:
    """Return the word in the name of a tool that means that a call cannot be undone.

    Example:
        >>> risky_word("mail__send_message"), risky_word("deletesFile"), risky_word("sender_of")
        ('send', 'deletes', None)
    """
    words = _words(name)
    return next((word for at, word in enumerate(words) if word in (_RISKY if at else _FIRST)), None)


def moves(name: str) -> bool:
    """Return whether the name of a tool means that it moves things."""
    return not _MOVES.isdisjoint(_words(name))


def lists_in(schema: Mapping[str, object]) -> Iterator[str]:
    """Yield the parameters of a schema that may be lists.

    Example:
        >>> list(lists_in({"properties": {"to": {"type": "string"}, "files": {"type": "array"}}}))
        ['files']
    """
    properties = schema.get("properties")
    for name, each in properties.items() if isinstance(properties, dict) else ():
        if not isinstance(each, dict) or not _is_scalar(each):
            yield name


def _is_scalar(schema: Mapping[str, object]) -> bool:
    return schema.get("type") in ("string", "number", "integer", "boolean", "null")


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]
