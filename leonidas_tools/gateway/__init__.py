"""The gateway: one conversation with one user over each WebSocket."""

from leonidas_tools.gateway.app import GatewayApp, gateway_app
from leonidas_tools.gateway.limits import GatewayLimits
from leonidas_tools.gateway.serving import serve_gateway
from leonidas_tools.gateway.tokens import make_token

__all__ = ["GatewayApp", "GatewayLimits", "gateway_app", "make_token", "serve_gateway"]
