"""Access of a session to a table of the store."""

from typing import ClassVar, Generic, TypeVar

from leonidas_tools.errors import ToolError
from leonidas_tools.results.texts import say

T = TypeVar("T")


class TableAccess(Generic[T]):
    """Access to one table, if the session has a store."""

    missing: ClassVar[str]
    """The key of the message to the model if there is no store."""

    def __init__(self) -> None:
        self.store: T | None = None

    @property
    def table(self) -> T:
        """Return the table.

        Raises:
            ToolError: The session has no store.
        """
        if self.store is None:
            raise ToolError(say(self.missing), status="unavailable", reason_code="no_store")
        return self.store
