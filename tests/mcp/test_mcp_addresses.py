"""What is shown of the address of an MCP server."""

import pytest

from leonidas_tools.mcp.transport.reasons import with_place
from leonidas_tools.mcp.transport.redaction import ServerRedaction
from leonidas_tools.settings.load import load
from leonidas_tools.settings.models import MCPServerSettings
from leonidas_tools.settings.shown import to_display

SECRETS = [
    ("https://mcp.example/s/{}/mcp", "MGQ2ZjYtNzE"),
    ("https://mcp.example/{}", "0d6f7190aa"),
    ("https://mcp.example/api/{}/sse", "hunter-two-1"),
    ("https://mcp.example/api/{};v=1/sse", "Zx81-key"),
    ("https://{}@mcp.example/mcp", "token-in-front"),
    ("https://me:{}@mcp.example/mcp", "passw0rd"),
    ("https://mcp.example/mcp?k={}", "q-u-e-r-y-7"),
]


@pytest.mark.parametrize(("pattern", "secret"), SECRETS)
def test_a_secret_in_an_address_is_shown_nowhere(pattern, secret):
    url = pattern.format(secret)
    settings = MCPServerSettings(url=url)
    told = str(to_display(load({"mcp_servers": {"x": {"url": url}}})))
    assert secret not in told
    assert "mcp.example" in told
    reason = with_place("it does not answer", url)
    assert secret not in reason
    assert "mcp.example" in reason
    assert secret not in ServerRedaction(settings)(f"404 for {url}: no {secret}")


@pytest.mark.parametrize("url", ["https://host/mcp", "http://host:80/api/v1/mcp/", "http://h/sse"])
def test_what_is_the_same_everywhere_is_shown(url):
    assert to_display(load({"mcp_servers": {"x": {"url": url}}}))["mcp_servers"]["x"]["url"] == url
