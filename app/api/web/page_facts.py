"""Facts of this release that the page at /ui shows: states, verbs, filters and fields of nodes."""

from collections.abc import Iterator, Mapping

import marshmallow
import orjson

from app.api.declarations import node_fields
from app.api.schemas.nodes import NodeFilters
from app.api.transport.responses import OPTIONS
from app.api.values.value_types import Flag, ListQuery
from app.lifecycle.provision_states import MACHINE, VERBS, Kind, State
from app.lifecycle.verb_arguments import arguments_of, required_by

_FAILED_STATES = [*(state for state in State if MACHINE[state].kind is Kind.FAILED), State.ERROR]
#: Expression that selects all nodes with a failure of any kind.
FAILED = f"provision_state in ({', '.join(_FAILED_STATES)}) or failure_code=* or fault=*"


def encoded() -> bytes:
    """Return the document at /ui/facts.json."""
    facts = {
        "states": {state: {"kind": row.kind, "moves": row.moves} for state, row in MACHINE.items()},
        "verbs": {verb: _verb(verb) for verb in VERBS},
        "filters": dict(_filters()),
        "fields": node_fields.FULL,
        "failed": FAILED,
    }
    return orjson.dumps(facts, option=OPTIONS)


def _verb(verb: str) -> Mapping[str, object]:
    """Describe a verb: its event, the arguments it takes, and those one of which it requires."""
    return {
        "event": VERBS[verb],
        "takes": {
            name: {"content": argument.content, "secret": argument.is_secret}
            for name, argument in arguments_of(verb).items()
        },
        "requires": required_by(verb),
    }


def _filters() -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the filters of lists of nodes, and the values that each accepts; null: any text."""
    of_lists = ListQuery().fields
    for name, field in NodeFilters().fields.items():
        if name not in of_lists:
            yield name, {"values": _values(field)}


def _values(field: marshmallow.fields.Field[object]) -> list[str] | None:
    if isinstance(field, Flag):
        return ["true", "false"]
    for check in field.validators:
        if isinstance(check, marshmallow.validate.OneOf):
            return [str(choice) for choice in check.choices]
    return None
