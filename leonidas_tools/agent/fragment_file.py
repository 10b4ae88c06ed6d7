"""The keys of a fragment in a YAML file."""

from leonidas_tools.settings.fields import Count, Duration, Name, OptionalCount
from leonidas_tools.settings.model import SettingsModel


class FragmentFile(SettingsModel):
    """A fragment in a YAML file.

    Args:
        name: The name that a model calls it by; by default that of the file.
        description: What it is good for; a model chooses by this.
        instructions: What its model is told beforehand.
        tools: Names of tools, with wildcards.
        fragments: Names of the fragments that it hands parts of a task to.
        model: The name of its model.
        max_iterations: How often its model is asked for a task.
        max_calls: How many calls it makes for a task.
        max_tokens: How many tokens a task takes.
        max_seconds: How long a task takes.
    """

    name: Name = ""
    description: Name
    instructions: str = ""
    tools: tuple[Name, ...] = ()
    fragments: tuple[Name, ...] = ()
    model: Name | None = None
    max_iterations: Count = 10
    max_calls: Count = 30
    max_tokens: OptionalCount = None
    max_seconds: Duration = 600.0
