"""The official conformance suite, against our clients and against our server."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from tests.mcp.conformance.suite import node, outcomes, script

HERE = Path(__file__).parent
SECONDS = 150
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_ONLY_TOOLS = "tools are what is offered; there are no resources, prompts or completions of ours"
_OWN_FORM = "the only thing our server asks a user is whether a call may run, by a form of its own"
NOT_OF_OUR_SERVER = {
    "logging-set-level": "what is logged goes to standard error; the newer protocol drops this",
    "tools-call-with-logging": "as above: a tool has no way to write to the log of a client",
    "tools-call-sampling": "a tool cannot use the model of a client; the newer protocol drops this",
    "completion-complete": _ONLY_TOOLS,
    "elicitation-sep1034-defaults": _OWN_FORM,
    "elicitation-sep1330-enums": _OWN_FORM,
    "resources-list": _ONLY_TOOLS,
    "resources-read-text": _ONLY_TOOLS,
    "resources-read-binary": _ONLY_TOOLS,
    "resources-templates-read": _ONLY_TOOLS,
    "resources-subscribe": _ONLY_TOOLS,
    "resources-unsubscribe": _ONLY_TOOLS,
    "prompts-list": _ONLY_TOOLS,
    "prompts-get-simple": _ONLY_TOOLS,
    "prompts-get-with-args": _ONLY_TOOLS,
    "prompts-get-embedded-resource": _ONLY_TOOLS,
    "prompts-get-with-image": _ONLY_TOOLS,
}
"""Scenarios that do not apply, with the reason; one that passes all the same is to be taken out."""

SERVER_SCENARIOS = {
    "server-initialize",
    "ping",
    "tools-list",
    "tools-call-simple-text",
    "tools-call-image",
    "tools-call-audio",
    "tools-call-embedded-resource",
    "tools-call-mixed-content",
    "tools-call-error",
    "tools-call-with-progress",
    "tools-call-elicitation",
    "json-schema-2020-12",
    "server-sse-polling",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
}


NOT_OF_OUR_CLIENT = {
    "auth/scope-step-up": (
        "a session opens no browser in the middle of a call: the call says that a login is needed"
    ),
    "auth/2025-03-26-oauth-metadata-backcompat": (
        "the metadata name another issuer than the place they were read from, which RFC 8414 "
        "forbids to accept; the bare SDK refuses them too"
    ),
    "auth/client-credentials-jwt": "an account of ours has a secret, not a key that it signs with",
    "auth/cross-app-access-complete-flow": "no identity provider's tokens are exchanged",
}
CLIENT_SCENARIOS = {
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
    "auth/2025-03-26-oauth-endpoint-fallback",
    "auth/resource-mismatch",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
    "auth/client-credentials-basic",
}
WARNED = {
    "auth/basic-cimd": "a client registers with each server; no web page of ours describes it",
    "sse-retry": "on a busy machine we come back some tenths of a second late",
}
"""Scenarios that may pass with a warning, with the reason."""

MAY_FAIL = {"sse-retry": {"ClientRespectsRetryField"}}
"""Checks of how fast the machine is."""


async def _run(*command, seconds=SECONDS, **environment):
    """What a program has written."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **environment},
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(seconds):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            os.killpg(process.pid, 9)
            await process.communicate()
    return said.decode()


def _passed(ran):
    return {
        name
        for name, outcome in ran.items()
        if not outcome.failed or set(outcome.failures) == MAY_FAIL.get(name)
    }


@pytest.fixture
async def served():
    """The address of our server, with the tools that the suite calls."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "leonidas_tools", "mcp", "serve", "--http", "0"),
        *("--config", str(HERE / "tools.yaml")),
        stderr=asyncio.subprocess.PIPE,
    )
    said = []
    try:
        async with asyncio.timeout(SECONDS):
            async for line in process.stderr:
                said.append(line.decode())
                found = re.search(r"Serving MCP at (\S+)", said[-1])
                if found:
                    break
            else:
                raise AssertionError(said)
        yield found[1]
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_our_server_conforms_in_all_that_applies(served):
    suite = (node(), script(), "server", "--suite", "all", "--url", served)
    said = await _run(*suite, NO_COLOR="1")
    ran = outcomes(said)
    assert ran.keys() == SERVER_SCENARIOS | NOT_OF_OUR_SERVER.keys(), said
    assert _passed(ran) == SERVER_SCENARIOS, said


async def test_our_client_conforms_in_all_that_applies(tmp_path):
    suite = (node(), script())
    alone = ("unshare", "--map-root-user", "--net")
    if "loopback" not in await _run(*alone, "echo", "loopback"):
        pytest.skip("no network of its own is to be had here, and the suite's servers are open")
    said = await _run(
        *(*alone, sys.executable, str(HERE / "clients.py"), *suite),
        PYTHONPATH=str(HERE.parents[2]),
        LEONIDAS_DATA_DIR=str(tmp_path),
    )
    ran = outcomes(said)
    assert ran.keys() == CLIENT_SCENARIOS | NOT_OF_OUR_CLIENT.keys(), said
    assert _passed(ran) == CLIENT_SCENARIOS, said
    warned = {name for name in CLIENT_SCENARIOS if ran[name].warnings}
    assert warned <= WARNED.keys(), said
