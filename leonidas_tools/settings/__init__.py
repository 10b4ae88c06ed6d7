"""Settings: models, the YAML file, its watcher and its writer."""
