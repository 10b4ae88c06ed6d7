"""Settings: models, the YAML file, its watcher and its writer."""

from pathlib import Path

OWN_CONFIGS = (Path("config/tools.yaml"), Path("tools.yaml"))
"""The settings files that `leonidas` looks for in the working directory, in search order."""
