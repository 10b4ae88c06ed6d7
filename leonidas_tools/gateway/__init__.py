"""The gateway: one conversation with one user over each WebSocket."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from leonidas_tools.gateway.limits import GatewayLimits

if TYPE_CHECKING:
    from leonidas_tools.gateway.app import GatewayApp, gateway_app, serve_gateway
    from leonidas_tools.gateway.tokens import make_token
else:  # signing a token needs no package for audio, and the console none of the extra `serve`
    _LOADED_WHEN_NAMED = {
        "GatewayApp": "leonidas_tools.gateway.app",
        "gateway_app": "leonidas_tools.gateway.app",
        "make_token": "leonidas_tools.gateway.tokens",
        "serve_gateway": "leonidas_tools.gateway.app",
    }

    def __getattr__(name: str) -> Any:
        """Load a public name from its module, once."""
        if name not in _LOADED_WHEN_NAMED:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_LOADED_WHEN_NAMED[name]), name)
        globals()[name] = value
        return value


__all__ = ["GatewayApp", "GatewayLimits", "gateway_app", "make_token", "serve_gateway"]
