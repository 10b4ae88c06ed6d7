import asyncio

import pytest

from leonidas_tools.sandbox import NoSandboxError, Sandbox
from tests.sandbox.boxes import ISOLATING


def _why_not(backend: str) -> str | None:
    async def tried() -> None:
        async with Sandbox(backend=backend) as sandbox:
            await sandbox.run(["true"])

    try:
        asyncio.run(tried())
    except NoSandboxError as error:
        return str(error)
    return None


@pytest.fixture(scope="session")
def why_not():
    """Why a backend cannot be had on this machine; `None` for one that can."""
    return {backend: _why_not(backend) for backend in (*ISOLATING, "none")}


@pytest.fixture(params=ISOLATING)
def backend(request, why_not):
    reason = why_not[request.param]
    if reason is not None:
        pytest.skip(reason)
    return request.param
