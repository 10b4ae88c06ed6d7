"""What all stages are: processors that can be added to any other."""

from __future__ import annotations

from genai_processors import processor


class Stage(processor.Processor):
    """A processor whose `+` is typed for any other; upstream's takes only one of its own class."""

    def __add__(
        self, other: processor.Processor | processor.PartProcessor
    ) -> processor._ChainProcessor:  # what upstream makes
        return super().__add__(other)  # type: ignore[operator]  # wider than upstream's annotation
