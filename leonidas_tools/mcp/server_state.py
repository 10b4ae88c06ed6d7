"""How an MCP server does, in a word."""

from __future__ import annotations

from enum import StrEnum


class ServerState(StrEnum):
    """How a server does."""

    STARTING = "starting"
    STANDBY = "standby"
    READY = "ready"
    DOWN = "down"
    STOPPED = "stopped"
