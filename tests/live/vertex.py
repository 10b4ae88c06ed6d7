"""What leads a client in Vertex AI's dialect to the simulator."""

import google.auth.credentials
import google.auth.exceptions

MODEL = "gemini-live-2.5-flash-native-audio"
PLACE = {"vertexai": True, "project": "p", "location": "us-central1"}


class Credentials(google.auth.credentials.Credentials):
    """Credentials whose token cannot be had for a while."""

    def __init__(self):
        super().__init__()
        self.token = "t"
        self.failures = 0

    @property
    def expired(self):
        return self.failures > 0

    def refresh(self, request):
        self.failures -= 1
        raise google.auth.exceptions.TransportError("no network")


def http_options(simulator):
    """With the version left to the client."""
    options = simulator.http_options()
    options.api_version = None
    return options
