"""Tools: metadata, schema, registry, discovery and export."""
