"""Request schemas of rollouts."""

import re
from difflib import get_close_matches
from typing import Any

from marshmallow import Schema, ValidationError, fields, post_load, validate, validates_schema

from app.api.schemas.nodes import DeployStep, NodeFilters, OrderedStep, steps_of
from app.api.values.value_types import (
    Flag,
    Ident,
    Moment,
    PageQuery,
    SequencePageQuery,
    Text,
    Uuid,
    within,
)
from app.lifecycle.rollout_states import REQUESTS
from app.models import RolloutNodeState, RolloutState
from app.rollouts import windows
from app.rollouts.rollout_plan import GROUPING, GROUPING_DOCUMENTS
from app.rollouts.rollout_targets import TARGETS

#: Most nodes of a wave, and of the other counts of a strategy.
MOST = 1_000_000
#: Most names of nodes in a request.
MOST_NAMES = 10_000
#: Most windows of a rollout.
MOST_WINDOWS = 10
#: Parameters of `GET /v1/nodes` that do not filter, or not by the database.
NO_FILTERS = ("fields_", "detail", "limit", "marker", "sort_key", "sort_dir", "conductor")

_COUNT = re.compile(r"[1-9][0-9]{0,6}|(?:[1-9][0-9]?|100)%")
_KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Count(fields.Field[str]):
    """Number of nodes: an integer above 0, or a share from "1%" to "100%"."""

    def _deserialize(self, value: object, attr: object, data: object, **kwargs: object) -> str:
        text = str(value) if not isinstance(value, bool) else ""
        if not isinstance(value, int | str) or not _COUNT.fullmatch(text):
            raise ValidationError(
                f"{{name}}: {value!r} is neither a number of nodes above 0 nor a share such as '5%'"
            )
        return text


class Grouping(Text):
    """Field of a node, or a key of one of its documents."""

    def _normalized(self, text: str) -> str:
        document, _, key = text.partition(".")
        if text not in GROUPING and not (document in GROUPING_DOCUMENTS and _KEY.fullmatch(key)):
            documents = " or ".join(f"{name}.KEY" for name in GROUPING_DOCUMENTS)
            raise ValidationError(
                f"{{name}}: {text!r} is none of {', '.join(GROUPING)}, {documents}"
            )
        return text


class WindowFields(Schema):
    """Repeated times at which nodes may be started."""

    cron = Text(
        100,
        required=True,
        metadata={"description": "Begins, as 0 22 * * MON-FRI: minute hour day month weekday"},
    )
    zone = Text(64, load_default="UTC", metadata={"description": "Time zone, as Europe/Berlin"})
    minutes = fields.Integer(
        strict=True,
        required=True,
        validate=within(1, windows.LONGEST),
        metadata={"description": "Minutes that it stays open"},
    )

    @validates_schema(skip_on_field_errors=True)
    def _opens(self, data: dict[str, Any], **_kwargs: object) -> None:
        if data["zone"] not in windows.zones():
            near = get_close_matches(data["zone"], windows.zones(), 1)
            hint = f"; the nearest is {near[0]}" if near else ", as Europe/Berlin"
            raise ValidationError(f"{data['zone']!r} is no time zone{hint}", "zone")
        try:
            opens = windows.ever_opens(windows.Window(**data))
        except ValueError as error:
            raise ValidationError(f"{data['cron']!r}: {error}", "cron") from None
        if not opens:
            raise ValidationError(f"{data['cron']!r} is no day of any year", "cron")


class StrategyFields(Schema):
    """Limits of a rollout."""

    max_unavailable = Count(
        metadata={"description": "Most nodes in progress at a time: a number or a share, as 5%"}
    )
    group_by = Grouping(metadata={"description": "Field that groups nodes, as extra.rack"})
    max_groups = fields.Integer(
        strict=True,
        validate=within(1, MOST),
        metadata={"description": "Most groups with a node in progress; needs group_by"},
    )
    max_per_group = fields.Integer(
        strict=True,
        validate=within(1, MOST),
        metadata={"description": "Most nodes in progress in a group; needs group_by"},
    )
    canary = fields.Integer(
        strict=True,
        validate=within(0, MOST),
        metadata={"description": "First nodes; if one of them fails, the rollout pauses"},
    )
    error_budget = Count(
        metadata={"description": "Failed nodes, or their share, at which the rollout pauses"}
    )
    not_before = Moment(
        allow_none=True, metadata={"description": "Time before which no node is started"}
    )
    windows = fields.List(
        fields.Nested(WindowFields()),
        validate=validate.Length(
            1, MOST_WINDOWS, error="Expected {min} to {max} windows for {{name}}"
        ),
        metadata={"description": "Times outside of which no node is started; running ones go on"},
    )

    @post_load
    def _document(self, data: dict[str, Any], **_kwargs: object) -> dict[str, Any]:
        """Return the strategy as rollouts keep it, with a text in place of the time."""
        if data.get("not_before") is not None:
            data["not_before"] = data["not_before"].isoformat()
        return data

    @validates_schema
    def _grouped(self, data: dict[str, object], **_kwargs: object) -> None:
        for name in ("max_groups", "max_per_group"):
            if name in data and "group_by" not in data:
                raise ValidationError(f"{name}: needs group_by")


class RolloutNodes(NodeFilters):  # type: ignore[misc, valid-type]
    """Nodes of a rollout: those that match all filters."""

    class Meta:
        exclude = NO_FILTERS

    names = fields.List(
        Ident(),
        validate=validate.Length(1, MOST_NAMES, error="Expected {min} to {max} names for {{name}}"),
        metadata={"description": "UUIDs or names of nodes, each of which must exist"},
    )


class RolloutCreate(Schema):
    """A verb or a power state for the nodes that match filters."""

    uuid = Uuid(metadata={"description": "UUID; a repeated request with it is refused"})
    description = Text(65535, allow_none=True)
    target = Text(choices=TARGETS, required=True)
    nodes = fields.Nested(
        RolloutNodes(),
        required=True,
        metadata={"description": "Filters of GET /v1/nodes; without any: all nodes"},
    )
    strategy = fields.Nested(StrategyFields())
    clean_steps = steps_of(OrderedStep)
    deploy_steps = steps_of(DeployStep)
    service_steps = steps_of(OrderedStep)
    disable_ramdisk = Flag()
    runbook = Ident()
    timeout = fields.Integer(validate=within(1, 2**31 - 1))
    dry_run = Flag(metadata={"description": "Only return the nodes, their waves and exclusions"})


class RolloutRequest(Schema):
    target = Text(choices=REQUESTS, required=True)


class RolloutFilters(PageQuery):
    state = Text(choices=RolloutState)


class RolloutNodeFilters(SequencePageQuery):
    class Meta:
        exclude = ("sort_key", "sort_dir")

    state = Text(choices=RolloutNodeState)
    wave = fields.Integer(validate=within(1, MOST))
    code = Text(64)
