"""A model and a person that a server asks, as a test has them answer."""

import asyncio

from leonidas_tools.mcp.asks import SamplingAnswer

SAMPLING = {"enabled": True, "model": "gemini-3.8-flash", "max_tokens": 300}


class Model:
    """Answers as the test says; what was asked is kept."""

    def __init__(self):
        self.asked = []

    async def __call__(self, request):
        self.asked.append(request)
        return SamplingAnswer(text="Roses are red.", model="rhymer-1", stop_reason="maxTokens")


async def call(tools, name, /, **arguments):
    async with asyncio.timeout(60):
        return await tools.execute(name, arguments)


def answering(*decisions):
    """A channel that answers so, one after another, and what it was asked."""
    asked, left = [], list(decisions)

    async def person(request):
        asked.append(request)
        return left.pop(0)

    return person, asked
