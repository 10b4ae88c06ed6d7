"""Who we tell a server we are."""

from __future__ import annotations

import importlib.metadata

import mcp_types


def client_info() -> mcp_types.Implementation:
    """This library, and its version."""
    try:
        version = importlib.metadata.version("leonidas-tools")
    except importlib.metadata.PackageNotFoundError:
        version = "0"
    return mcp_types.Implementation(name="leonidas-tools", version=version)
