"""Field types of nodes."""

from typing import Any

from marshmallow import ValidationError

from app.api.values import network_data
from app.api.values.value_types import Document, Text


class Properties(Document):
    """`properties` of a node; the sizes in it are non-negative integers."""

    def _validate(self, value: dict[str, Any]) -> None:
        super()._validate(value)
        for key in ("local_gb", "memory_mb"):
            size = value.get(key)
            if size is None:
                continue
            if isinstance(size, bool) or not str(size).isdecimal():
                raise ValidationError(
                    "The following properties for node should be non-negative integers, but"
                    f" provided values are: {{{key!r}: {size!r}}}"
                )


class NetworkData(Document):
    """`network_data` of a node: static network configuration of the agent."""

    def _validate(self, value: dict[str, Any]) -> None:
        super()._validate(value)
        network_data.check(value)


class GroupName(Text):
    """Name of a conductor group; empty: the default group."""

    def _validate(self, value: str) -> None:
        super()._validate(value)
        if value and not value.replace("_", "").replace("-", "").replace(".", "").isalnum():
            raise ValidationError("Must be letters, digits, underscores, dashes and dots.")
