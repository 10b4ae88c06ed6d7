"""A server that asks: the person, a model, and where it may work; over the newer protocol."""

from typing import Annotated, Literal

import mcp_types as types
from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
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


def poem(topic: str):
    message = types.SamplingMessage(
        role="user", content=types.TextContent(text=f"A poem on {topic}")
    )
    prompt = "Rhyme." * (50_000 if topic == "everything" else 1)
    return Sample([message], max_tokens=5000, system_prompt=prompt)


def roots():
    return ListRoots()


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


@server.tool(annotations=read_only())
async def write(topic: str, answer: Annotated[types.CreateMessageResult, Resolve(poem)]) -> dict:
    """Has a model write a poem."""
    return {"text": answer.content.text, "model": answer.model, "why": answer.stop_reason}


@server.tool(annotations=read_only())
async def directories(found: Annotated[types.ListRootsResult, Resolve(roots)]) -> list[str]:
    """Where it may work."""
    return [str(root.uri) for root in found.roots]


@server.tool(annotations=read_only())
async def chat(count: int, ctx: Context) -> str:
    """Logs."""
    for number in range(count):
        await ctx.warning(f"line {number}\n\x1b[31mred key=sk-abcdefghijklmnopqrstuvwxyz0123")
    await ctx.debug("not wanted")
    return "done"


if __name__ == "__main__":
    run(server)
