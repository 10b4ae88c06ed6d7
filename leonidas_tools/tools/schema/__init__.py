"""Signature and docstring, or a JSON Schema → how a tool is described and called."""

from leonidas_tools.tools.schema.signature import Signature, read_json_schema, read_signature

__all__ = ["Signature", "read_json_schema", "read_signature"]
