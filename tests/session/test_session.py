"""A session gives its tools the objects that the program has put in."""

import abc
import logging
from dataclasses import dataclass
from typing import Protocol

import pytest

from leonidas_tools import AdvancedToolProcessor, ToolContext, ToolSession, tool
from leonidas_tools.errors import SessionValueError


@dataclass
class Deps:
    account: str
    limit: int = 3


class Store(abc.ABC):
    @abc.abstractmethod
    def read(self): ...


class Reader(Protocol):
    def read(self): ...


class File(Store):
    def read(self):
        return "read"


class Broken:
    def __init__(self, *args, **kwargs):
        raise TypeError("its own")


@dataclass
class Special(Deps):
    pass


@pytest.mark.parametrize(
    ("kind", "what_is_missing", "what_to_do"),
    [
        (Deps, "'Deps' needs 'account'", "call session.put(Deps(...)) before the first call"),
        (Store, "'Store' is abstract", "call session.put(value, Store) before the first call"),
        (Reader, "'Reader' is abstract", "call session.put(value, Reader) before the first call"),
    ],
)
def test_a_forgotten_object_says_what_to_do(kind, what_is_missing, what_to_do):
    session = ToolSession("kitchen")
    session.put("something else")
    with pytest.raises(SessionValueError) as raised:
        session.get(kind)
    message = str(raised.value)
    assert message.startswith(f"the session 'kitchen' has no {kind.__name__!r}, and ")
    assert what_is_missing in message
    assert what_to_do in message


def test_an_object_of_a_subclass_is_named_with_how_to_put_it():
    session = ToolSession()
    session.put(Special("ana"))
    with pytest.raises(
        SessionValueError, match=r"'Special' is a subclass: call session\.put\(value, Deps\)"
    ):
        session.get(Deps)


def test_a_type_error_of_the_class_itself_stays():
    with pytest.raises(TypeError, match="its own"):
        ToolSession().get(Broken)


def test_an_object_can_be_put_under_its_base_class():
    session = ToolSession()
    session.put(File(), Store)
    assert session.get(Store).read() == "read"


async def test_the_developer_reads_it_and_not_the_model(caplog):
    @tool(requires_approval=False)
    async def pay(ctx: ToolContext) -> str:
        """Pay."""
        return ctx.session.get(Deps).account

    with caplog.at_level(logging.WARNING):
        result = await AdvancedToolProcessor(tools=[pay]).execute("pay")
    assert result.to_response() == {
        "status": "failed",
        "message": "The tool 'pay' failed.",
        "retryable": False,
    }
    assert isinstance(result.error, SessionValueError)
    said = (
        "The tool 'pay': the session 'direct' has no 'Deps', and 'Deps' needs 'account': "
        "call session.put(Deps(...)) before the first call that needs it"
    )
    assert caplog.messages == [said]
