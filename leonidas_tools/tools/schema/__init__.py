"""Read the schema of a tool from a signature and docstring, or from a JSON Schema."""

from leonidas_tools.tools.schema.signature import Signature, read_json_schema, read_signature

__all__ = ["Signature", "read_json_schema", "read_signature"]
