"""Our session around upstream's `LiveProcessor`."""

from genai_processors import processor
from genai_processors.core.live_model import LiveProcessor
from google.genai import types

from tests.benchmarks.live.agent import MODEL, Brief
from tests.benchmarks.live.ours import Ours


class Upstream(Ours):
    """`LiveProcessor` in a `LiveToolSession`."""

    def _model(self) -> processor.Processor:
        return LiveProcessor(
            api_key="simulated",
            model_name=MODEL,
            realtime_config=types.LiveConnectConfig(
                response_modalities=[types.Modality.AUDIO], tools=[*self.tools.declarations()]
            ),
        )


def make(brief: Brief) -> Upstream:
    """Upstream's connection with our tools."""
    return Upstream(brief)
