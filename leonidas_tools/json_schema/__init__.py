"""Validate arguments by a JSON Schema of any draft; fill in defaults and coerce safely."""

from leonidas_tools.json_schema.text import parse_arguments
from leonidas_tools.json_schema.validator import ArgumentValidator, error_without

__all__ = ["ArgumentValidator", "error_without", "parse_arguments"]
