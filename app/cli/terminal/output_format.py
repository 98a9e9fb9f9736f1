"""Output formats."""

from enum import StrEnum


class Form(StrEnum):
    """Value of `--output`."""

    TABLE = "table"
    JSON = "json"
    VALUE = "value"
