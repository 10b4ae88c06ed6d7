"""The things of a user that a session reaches in a store."""

from typing import ClassVar, Generic, TypeVar

from leonidas_tools.errors import ToolError
from leonidas_tools.results.texts import say

T = TypeVar("T")


class Kept(Generic[T]):
    """One kind of thing that a session reaches: those of a store, where it has one."""

    missing: ClassVar[str]
    """The text for the model where there is no store."""

    def __init__(self) -> None:
        self.store: T | None = None

    @property
    def keeper(self) -> T:
        """Return the table of the store.

        Raises:
            ToolError: The session has no store.
        """
        if self.store is None:
            raise ToolError(say(self.missing), status="unavailable", reason_code="no_store")
        return self.store
