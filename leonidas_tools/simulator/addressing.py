"""Options that lead a client to the simulator."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from google.genai.types import HttpOptions

    from leonidas_tools.simulator.certificate import LoopbackCertificate

API_VERSION: Final = "v1beta"
API_KEY: Final = "simulated"


def http_options(base_url: str, certificate: LoopbackCertificate) -> HttpOptions:
    """Options for `genai.Client` that lead it to a server on loopback."""
    from google.genai.types import HttpOptions

    connect = {
        "ssl": certificate.client_context(),
        "proxy": None,
        "ping_interval": None,
        "max_size": None,
    }
    return HttpOptions(base_url=base_url, api_version=API_VERSION, async_client_args=connect)


def environment(base_url: str, certificate: LoopbackCertificate) -> dict[str, str]:
    """Environment variables that lead a program to a server on loopback."""
    no_proxy = ",".join(filter(None, [os.environ.get("NO_PROXY"), "127.0.0.1"]))
    return {
        "GOOGLE_GEMINI_BASE_URL": base_url,
        "GOOGLE_GENAI_API_VERSION": API_VERSION,
        "GEMINI_API_KEY": API_KEY,
        "SSL_CERT_FILE": str(certificate.path),
        "NO_PROXY": no_proxy,
        "no_proxy": no_proxy,
    }
