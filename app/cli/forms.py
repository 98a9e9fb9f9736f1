"""The forms that an answer can be written in."""

from enum import StrEnum


class Form(StrEnum):
    """How an answer is written."""

    TABLE = "table"
    JSON = "json"
    VALUE = "value"
