"""Payloads of notifications: objects in the form that Ironic gives them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Boolean, DateTime
from sqlalchemy.types import TypeEngine

from app.models import Base
from app.text.masking import mask

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Form:
    """Name of a kind of payloads, and its version in Ironic 39."""

    name: str
    version: str

    def filled(self, data: Mapping[str, Any]) -> Document:
        """Return the payload with these fields; secrets are masked."""
        return {
            "ironic_object.namespace": "ironic",
            "ironic_object.name": self.name,
            "ironic_object.version": self.version,
            "ironic_object.data": {name: _shown(name, value) for name, value in data.items()},
        }


def typed(model: type[Base], facts: Mapping[str, Any]) -> Document:
    """Return the fields that an event has kept of a row, as its model has them."""
    columns = model.__table__.c
    return {
        name: _value(columns[name].type, value) if name in columns else value
        for name, value in facts.items()
    }


def _value(kind: TypeEngine[object], value: Any) -> Any:
    if value is not None and isinstance(kind, Boolean):
        return bool(value)  # SQLite has numbers
    if value is not None and isinstance(kind, DateTime):
        return datetime.fromisoformat(value)
    return value


def _shown(name: str, value: object) -> object:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    return mask(value, name)
