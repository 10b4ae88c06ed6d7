"""Which tools run and how: models, the YAML file, its watcher and its writer."""
