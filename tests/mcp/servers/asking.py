"""A server that asks the person, over the newer protocol."""

from typing import Annotated, Literal

from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel
from serving import read_only, run

server = MCPServer("asking")
ran = []


class Order(BaseModel):
    size: Literal["S", "M", "L"]
    count: int = 1


class Place(BaseModel):
    city: str


class Login(BaseModel):
    password: str


class Sure(BaseModel):
    pass


class Terms(BaseModel):
    name: str = ""
    agreed: bool = True


def terms():
    return Elicit("Delete all orders?", Terms)


def which():
    return Elicit("Which size?", Order)


def where():
    return Elicit("Where to?", Place)


def log_in():
    return Elicit("Please\nlog\x1b[2J in.", Login)


def sure():
    return Elicit("Are you sure?", Sure)


def told(outcome):
    data = outcome.data.model_dump() if outcome.action == "accept" else {}
    return {"action": outcome.action, **data}


@server.tool()
async def order(what: str, choice: Annotated[ElicitationResult[Order], Resolve(which)]) -> dict:
    """Orders something."""
    ran.append(what)
    return {"what": what, **told(choice)}


@server.tool()
async def send(
    choice: Annotated[ElicitationResult[Order], Resolve(which)],
    place: Annotated[ElicitationResult[Place], Resolve(where)],
) -> dict:
    """Sends something somewhere."""
    return {"choice": told(choice), "place": told(place)}


@server.tool()
async def login(answer: Annotated[ElicitationResult[Login], Resolve(log_in)]) -> str:
    """Asks for a password."""
    return answer.action


@server.tool()
async def agree(answer: Annotated[ElicitationResult[Terms], Resolve(terms)]) -> dict:
    """Asks for a name and for a yes."""
    return told(answer)


@server.tool()
async def wipe(answer: Annotated[ElicitationResult[Sure], Resolve(sure)]) -> str:
    """Asks for no more than a yes."""
    return answer.action


@server.tool(annotations=read_only())
async def orders() -> list[str]:
    """What was ordered."""
    return ran


if __name__ == "__main__":
    run(server)
