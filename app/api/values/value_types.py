"""Field types and query schemas shared by several resources. Invalid values are answered by 400."""

import re
from collections.abc import Iterable
from contextlib import suppress
from copy import copy
from datetime import UTC, datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from marshmallow import Schema, ValidationError, fields, validate

from app.agents.lookup import normalize_mac
from app.inventory.traits import is_trait
from app.rows.uuid_or_name import is_uuid

NAME = r"[A-Za-z0-9._~-]{1,255}"
_NAME = re.compile(NAME)
_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*")
#: Largest number that the databases have as an id.
LARGEST_ID = 2**63 - 1
#: Validator: a text or a list is not empty.
NOT_EMPTY = validate.Length(1, error="{input!r} should be non-empty")
TRUE = {"1", "t", "true", "y", "yes", "on"}
FALSE = {"0", "f", "false", "n", "no", "off"}


def within(minimum: int, maximum: int | None = None) -> list[validate.Validator]:
    """Validators of a range: `minimum` <= value <= `maximum`."""
    return [
        validate.Range(minimum, error="{input!r} is less than the minimum of {min}"),
        validate.Range(max=maximum, error="{input!r} is greater than the maximum of {max}"),
    ]


class Text(fields.String):
    """
    Text without NUL, which databases refuse.

    longest, shortest: length in characters; shortest is 0 or 1. choices: accepted values; with
    them the length is not checked.
    """

    def __init__(
        self, longest: int = 255, shortest: int = 0, choices: Iterable[str] = (), **kwargs: Any
    ) -> None:
        valid_words = [str(choice) for choice in choices]
        checked = (
            validate.OneOf(valid_words, error=f"{{input!r}} is not one of {valid_words}")
            if valid_words
            else validate.Length(
                max=longest, error="{input!r} is too long: at most {max} characters"
            )
        )
        super().__init__(validate=[NOT_EMPTY, checked] if shortest else checked, **kwargs)

    def _deserialize(self, value: object, attr: object, data: object, **kwargs: object) -> str:
        text = str(super()._deserialize(value, attr, data, **kwargs))
        if "\0" in text:
            raise ValidationError("Must not contain NUL.")
        return self._normalized(text)

    def _normalized(self, text: str) -> str:
        """Check a text, and return it as it is stored. Raises ValidationError."""
        return text


class Uuid(Text):
    """UUID, normalised to lower case with dashes."""

    def _normalized(self, text: str) -> str:
        if not is_uuid(text):
            raise ValidationError(f"Expected UUID for {{name}}: {text}")
        return str(UUID(text))


class Name(Text):
    """
    Name of letters, digits and -._~ that is not a UUID.

    null: whether a patch may set it to null, which removes it.
    """

    def __init__(self, *, null: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.null = null

    def _normalized(self, text: str) -> str:
        if not _NAME.fullmatch(text) or is_uuid(text):
            raise ValidationError(
                f"{{naming}} invalid name {text!r}: letters, digits and -._~, but no UUID"
            )
        return text


class Ident(Text):
    """UUID or name."""

    def _normalized(self, text: str) -> str:
        if not is_ident(text):
            raise ValidationError(f"Expected UUID or name for {{name}}: {text}")
        return text


class Trait(Text):
    """Name of a trait: standard or `CUSTOM_*`."""

    def _normalized(self, text: str) -> str:
        if not is_trait(text):
            raise ValidationError(not_a_trait(text))
        return text


class Mac(Text):
    """MAC address with colons, lower-cased."""

    def _normalized(self, text: str) -> str:
        if not is_mac(text):
            raise ValidationError(
                f"Expected valid MAC address for {{name}}: {text!r} is not a 'mac-address'"
            )
        return text.lower()


class Flag(fields.Field[bool]):
    """Boolean, or one of the words in `TRUE` and `FALSE`."""

    def _deserialize(self, value: object, attr: object, data: object, **kwargs: object) -> bool:
        if isinstance(value, bool):
            return value
        if not isinstance(value, str):
            raise ValidationError("Not a valid boolean.")
        word = value.lower()
        if word not in TRUE | FALSE:
            words = ", ".join(map(repr, sorted(TRUE | FALSE)))
            raise ValidationError(
                f"Invalid {{name}}: Unrecognized value {value!r}, acceptable values are: {words}"
            )
        return word in TRUE


class Moment(fields.NaiveDateTime):
    """Time in ISO 8601; without an offset it is UTC."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("iso", timezone=UTC, **kwargs)

    def _deserialize(self, value: object, attr: object, data: object, **kwargs: object) -> datetime:
        try:
            return super()._deserialize(value, attr, data, **kwargs)
        except (ValidationError, OverflowError):
            raise ValidationError(
                f"Expected a time for {{name}}, as 2026-01-31T12:00:00Z: {value!r}"
            ) from None


class Document(fields.Dict):
    """JSON object; null stands for an empty one."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(keys=fields.String(), allow_none=True, **kwargs)


class CommaSeparated(fields.Field[list[str]]):
    """List separated by commas, without duplicates. lower: whether to lower-case it."""

    is_multiple = True  # webargs: a repeated parameter is a list

    def __init__(self, *, lower: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._lower = lower

    def _deserialize(
        self, value: object, attr: object, data: object, **kwargs: object
    ) -> list[str]:
        if isinstance(value, list) and all(isinstance(part, str) for part in value):
            value = ",".join(value)
        if not isinstance(value, str) or "\0" in value:
            raise ValidationError("Expected words separated by commas.")
        words = (part.strip() for part in value.split(","))
        return list(dict.fromkeys(word.lower() if self._lower else word for word in words if word))


class Flat(Schema):
    """
    Schema with a fast path for valid documents.

    Its fields must have no `data_key`, no default and no validation across fields. An invalid
    document is loaded a second time, by marshmallow, for its messages.
    """

    @cached_property
    def _required(self) -> frozenset[str]:
        return frozenset(name for name, field in self.load_fields.items() if field.required)

    def load(self, data: Any, **kwargs: Any) -> Any:
        if isinstance(data, dict) and self._required <= data.keys():
            known_fields = self.load_fields
            with suppress(KeyError, ValidationError):
                return {name: known_fields[name].deserialize(value) for name, value in data.items()}
        return super().load(data, **kwargs)


def creation(
    change: type[Schema], *required: str, **further_fields: fields.Field[Any]
) -> type[Schema]:
    """
    Return the schema of a new resource, by the one of its changes: `PortCreate` by `PortChange`.

    required: names of its fields that a new resource needs. further_fields: those that no change
    has, or that differ.
    """
    required_fields = {name: copy(change().fields[name]) for name in required}
    for field in required_fields.values():
        field.required = True
    name = f"{change.__name__.removesuffix('Change')}Create"
    uuid = Uuid(allow_none=True)
    return change.from_dict({"uuid": uuid, **required_fields, **further_fields}, name=name)


class PageQuery(Schema):
    """Query parameters of pagination."""

    limit = fields.Integer(
        validate=validate.Range(1, error="Limit must be positive"),
        error_messages={"invalid": "Expected an integer for {{name}}: {input}"},
        metadata={"description": "Maximum number of items"},
    )
    marker = Text(metadata={"description": "UUID of the last item of the previous page"})
    sort_key = Text(metadata={"description": "Field to sort by"})
    sort_dir = fields.String(
        validate=validate.OneOf(
            ("asc", "desc"),
            error="Invalid sort direction: {input}. Acceptable values are 'asc' or 'desc'",
        )
    )


class SequencePageQuery(PageQuery):
    """Query parameters of pagination by sequence numbers."""

    class Meta:
        exclude = ("sort_key",)

    marker = fields.Integer(  # type: ignore[assignment]
        validate=within(0, LARGEST_ID),
        error_messages={"invalid": "Expected an integer for {{name}}: {input}"},
        metadata={"description": "Sequence number of the last item of the previous page"},
    )


class ListQuery(PageQuery):
    """Query parameters of every list."""

    fields_ = CommaSeparated(data_key="fields", metadata={"description": "Fields to show"})
    detail = Flag(metadata={"description": "Show all fields"})


class FieldsQuery(Schema):
    """Query parameters of every single resource."""

    fields_ = CommaSeparated(data_key="fields", metadata={"description": "Fields to show"})


def not_a_trait(text: str) -> str:
    return (
        f"{text!r} is not valid under any of the given schemas. Possible root cause: {text!r} does"
        " not match '^CUSTOM_[A-Z0-9_]+$', nor is it a standard trait"
    )


def is_mac(text: str) -> bool:
    """Return whether a text is a MAC address with colons."""
    return normalize_mac(text) == text.lower()


def is_host_name(text: str) -> bool:
    return len(text) < 256 and bool(_HOST_NAME.fullmatch(text))


def is_ident(text: str) -> bool:
    return is_uuid(text) or bool(_NAME.fullmatch(text))
