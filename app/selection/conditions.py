"""
Selections as SQL conditions on nodes: a table of the fields, and the translation of a tree.

A node without a value of a field is selected by no comparison of the field, and by each negated
one. A field that the caller must not see of a node counts as one without a value: so nothing of it
can be learned by selections.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    false,
    func,
    literal,
    not_,
    or_,
    select,
)

from app.db.clock import after, fixed
from app.lifecycle.hold_kinds import HoldKind
from app.lifecycle.provision_states import State
from app.models import (
    Baseline,
    BaselineNode,
    Compliance,
    Fault,
    Hold,
    Node,
    NodeTrait,
    Operation,
    Port,
)
from app.models.hold import in_effect
from app.reports import fleet_operations
from app.selection import free_words, grammar, sql_texts
from app.selection.grammar import FieldType, Kind
from app.selection.tree import All, Comparison, Not, Operator, Pattern, Some, Tree, Value, Word

_NODES = Node.__table__.c
#: Documents that callers see unmasked, keys of which are fields.
DOCUMENTS = ("extra", "properties")
#: Field whose values are the results of comparisons with baselines.
DIFFERS = "differs"
#: Keys of `driver_info` with the address of the BMC.
BMC_ADDRESSES = ("redfish_address", "ipmi_address")

#: Operator -> its condition on a column of the value's type.
_ORDER: Mapping[Operator, Callable[[object, Any], ColumnElement[bool]]] = {
    Operator.LESS: lambda column, value: column < value,
    Operator.AT_MOST: lambda column, value: column <= value,
    Operator.MORE: lambda column, value: column > value,
    Operator.AT_LEAST: lambda column, value: column >= value,
}


@dataclass(frozen=True, slots=True)
class Sight:
    """Rows that the caller may see. narrow: limits a query for operations to them."""

    narrow: Callable[[Select[object]], Select[object]]
    #: Field of a node -> condition of the nodes of which the caller sees it; all, if it is absent.
    hidden: Mapping[str, ColumnElement[bool]]


Test = Callable[[ColumnElement[Any]], ColumnElement[bool]]


@dataclass(frozen=True, slots=True)
class Field:
    """
    A field of selections.

    condition: returns the condition of the nodes of which a value passes a test.
    """

    name: str
    kind: Kind
    about: str
    condition: Callable[[Test, Sight], ColumnElement[bool]]
    choices: tuple[str, ...] = ()
    #: Values are stored in lower case.
    lower: bool = False
    #: Free words search it.
    free: bool = False
    #: The texts of a list are one condition, and not one each.
    together: bool = True
    #: Field of a node whose visibility decides; empty: visible with the node.
    shown_with: str = ""


def _column(
    name: str, about: str, kind: Kind = Kind.TEXT, choices: Iterable[str] = (), **kwargs: Any
) -> Field:
    def condition(test: Test, _sight: Sight) -> ColumnElement[bool]:
        return test(_NODES[name])

    return Field(name, kind, about, condition, tuple(map(str, choices)), **kwargs)


def _related(
    column: ColumnElement[object],
    node_id: ColumnElement[object],
    *further_conditions: Callable[[], Any],
) -> Callable[[Test, Sight], ColumnElement[bool]]:
    """Return the condition of nodes with a row of another table that passes."""

    def condition(test: Test, _sight: Sight) -> ColumnElement[bool]:
        rows = select(node_id).where(
            test(column), *(condition() for condition in further_conditions)
        )
        return _NODES.id.in_(rows)

    return condition


def _standing(key: str, test: Test, sight: Sight) -> Select[object]:
    """Return the query for the ids of nodes with a failure whose code or step passes."""
    standing = fleet_operations.standing_failures()
    rows = standing.with_only_columns(Operation.__table__.c.node_id)
    return sight.narrow(rows.where(test(fleet_operations.OF_OPERATION[key])))


def _differs(test: Test, _sight: Sight) -> ColumnElement[bool]:
    """Return the condition of nodes that differ from a baseline whose name passes."""
    rows = (
        select(BaselineNode.node_id)
        .join(Baseline, Baseline.id == BaselineNode.baseline_id)
        .where(test(Baseline.__table__.c.name), BaselineNode.state == Compliance.DIFFERS)
    )
    return _NODES.id.in_(rows)


def _failed(key: str, test: Test, sight: Sight) -> ColumnElement[bool]:
    return _NODES.id.in_(_standing(key, test, sight))


def _is_set(column: str, test: Test, _sight: Sight) -> ColumnElement[bool]:
    return test(_NODES[column].is_not(None))


def _bmc(test: Test, _sight: Sight) -> ColumnElement[bool]:
    """Addresses with credentials are shown masked, and are not compared."""
    addresses = [sql_texts.json_string(_NODES.driver_info, (key,)) for key in BMC_ADDRESSES]
    return or_(
        *(
            and_(test(address), *(not_(sql_texts.contains(address, sign)) for sign in "@?#"))
            for address in addresses
        )
    )


#: In the order of the documentation.
FIELDS = (
    _column("name", "its name", free=True),
    _column("uuid", "its UUID", lower=True, free=True),
    _column("provision_state", "its state", Kind.CHOICE, State, free=True),
    _column("target_provision_state", "the state that it is on the way to", Kind.CHOICE, State),
    _column("power_state", "as last read", Kind.CHOICE, ("power on", "power off", "error")),
    _column("last_error", "message of the last failure", free=True, shown_with="last_error"),
    Field("failure_code", Kind.TEXT, "code of a failure that nothing has followed yet",
          partial(_failed, "code"), free=True),
    Field("failure_step", Kind.TEXT, "step of that failure, as power.reboot",
          partial(_failed, "step")),
    _column("maintenance", "it is in maintenance", Kind.FLAG),
    _column("maintenance_reason", "the reason for that"),
    _column("fault", "reason of the service for maintenance", Kind.CHOICE, Fault),
    Field("hold", Kind.CHOICE, "kind of a hold that has not expired",
          _related(Hold.__table__.c.kind, Hold.__table__.c.node_id, in_effect), tuple(HoldKind)),
    Field(DIFFERS, Kind.TEXT, "the name of a baseline that it differs from", _differs,
          shown_with="last_error"),  # for the callers who may see its compliance
    Field("trait", Kind.TEXT, "a trait",
          _related(NodeTrait.__table__.c.trait, NodeTrait.__table__.c.node_id), free=True),
    Field("mac", Kind.TEXT, "MAC address of a port",
          _related(Port.__table__.c.address, Port.__table__.c.node_id), lower=True, free=True),
    Field("bmc", Kind.TEXT, "address of its BMC: host name, IP address or URL",
          _bmc, free=True, together=False, shown_with="driver_info"),
    _column("health", "health that the BMC reports"),
    _column("boot_mode", "uefi or bios, as last read"),
    _column("driver", "its hardware type", free=True),
    _column("resource_class", "its resource class", free=True),
    _column("conductor_group", "its group of conductors", lower=True, free=True),
    _column("reservation", "the conductor that works on it", shown_with="reservation"),
    _column("owner", "the project that it belongs to"),
    _column("lessee", "the project that may use it"),
    _column("shard", "its shard", free=True),
    _column("description", "its description", free=True),
    _column("chassis_uuid", "its chassis", lower=True),
    _column("parent_node", "UUID of its parent node", lower=True),
    _column("instance_uuid", "its instance", lower=True, free=True),
    _column("instance_name", "the name of its instance", free=True),
    _column("protected", "nothing may destroy its instance", Kind.FLAG),
    _column("protected_reason", "the reason for that"),
    _column("retired", "it is retired", Kind.FLAG),
    _column("retired_reason", "the reason for that"),
    Field("associated", Kind.FLAG, "it has an instance", partial(_is_set, "instance_uuid")),
    Field("sharded", Kind.FLAG, "it has a shard", partial(_is_set, "shard")),
    _column("created_at", "its enrollment", Kind.TIME),
    _column("updated_at", "its last change", Kind.TIME),
    _column("provision_updated_at", "the last change of its provision state", Kind.TIME),
    _column("inspection_finished_at", "the end of its last inspection", Kind.TIME),
)  # fmt: skip
BY_NAME: Mapping[str, Field] = {field.name: field for field in FIELDS}
#: Fields that free words search without `node_search`.
SEARCHED_APART = ("provision_state", "failure_code")
NAMES = (*BY_NAME, *(f"{document}.KEY" for document in DOCUMENTS))


def type_of(name: str) -> FieldType | None:
    """Return the type of a field, or of a key of a document; None if there is no such field."""
    document, _, path = name.partition(".")
    if document in DOCUMENTS and path:
        return FieldType(Kind.DOCUMENT, together=False)
    field = BY_NAME.get(name)
    return None if field is None else FieldType(field.kind, field.choices, field.together)


def parse(text: str) -> Tree:
    """Parse an expression of selection. Raises Invalid."""
    return grammar.parse(text, type_of, NAMES)


def condition(tree: Tree, sight: Sight, *, drives: bool = True) -> ColumnElement[bool]:
    """
    Translate a tree into a condition on rows of `nodes`, as the caller sees them.

    drives: no other part selects nodes that this one does not.
    """
    match tree:
        case All(parts=parts):
            return and_(*(condition(part, sight, drives=drives) for part in parts))
        case Some(parts=parts):
            words = [part for part in parts if isinstance(part, Word)]
            if len(words) == len(parts):
                return _of_words(words, sight, drives=drives)
            return or_(*(condition(part, sight, drives=False) for part in parts))
        case Not(part=part):
            return not_(func.coalesce(condition(part, sight, drives=False), false()))
        case Word():
            return _of_words([tree], sight, drives=drives)
    if tree.keys:
        return _in_document(_NODES[tree.field], tree)
    field = BY_NAME[tree.field]
    passes = _visible(field, partial(_passes, field, tree), sight)
    if field.name in free_words.TEXTS:
        texts = [value for value in tree.values if isinstance(value, str | Pattern)]
        return free_words.narrowed(passes, field.name, texts)
    return passes


def _visible(field: Field, test: Test, sight: Sight) -> ColumnElement[bool]:
    """Return the condition of a field, for the nodes of which the caller sees it."""
    passes = field.condition(test, sight)
    is_visible = sight.hidden.get(field.shown_with)
    return passes if is_visible is None else and_(is_visible, passes)


def _of_words(words: Iterable[Word], sight: Sight, *, drives: bool) -> ColumnElement[bool]:
    """Return the condition of the nodes with one of some words in a field that they search."""
    queries: list[Select[object]] = []
    for word in words:
        failed = _standing("code", _word(BY_NAME["failure_code"], word), sight)
        queries += free_words.rows(word, sight.hidden.get, _fields_fit(word, sight), failed)
    return free_words.selects(queries, drives=drives)


def _fields_fit(word: Word, sight: Sight) -> ColumnElement[bool] | None:
    """Return the condition that a field of `node_search` fits a pattern; None: it is none."""
    if isinstance(word.value, str):
        return None
    fields = (field for field in FIELDS if field.free and field.name not in SEARCHED_APART)
    return or_(*(_visible(field, _word(field, word), sight) for field in fields))


def _word(field: Field, word: Word) -> Test:
    if isinstance(word.value, str):
        return partial(_compares, Operator.CONTAINS, word.value)
    return partial(_compares, Operator.EQUAL, _lowered(word.value) if field.lower else word.value)


def _passes(
    field: Field, comparison: Comparison, column: ColumnElement[object]
) -> ColumnElement[bool]:
    """Return the condition of a column with one of the values of a comparison."""
    values = [_lowered(value) if field.lower else value for value in comparison.values]
    if field.name == "bmc" and comparison.operator == Operator.EQUAL:
        values = [pattern for value in values for pattern in _of_host(value)]
    texts = [value for value in values if isinstance(value, str)]
    if comparison.operator == Operator.EQUAL and len(texts) > 1:
        comparisons = [
            _compares(comparison.operator, value, column)
            for value in values
            if not isinstance(value, str)
        ]
        return or_(column.in_(texts), *comparisons)
    return or_(*(_compares(comparison.operator, value, column) for value in values))


def _compares(operator: Operator, value: Value, column: ColumnElement[Any]) -> ColumnElement[bool]:
    if isinstance(value, bool):  # part of the statement, as partial indexes require
        return column if value else not_(column)
    if operator in _ORDER:
        if isinstance(value, timedelta):
            return _ORDER[operator](column, fixed(after(literal(-value.total_seconds()))))
        return _ORDER[operator](column, value)
    if isinstance(value, Pattern):
        return sql_texts.fits(column, value)
    if operator == Operator.CONTAINS:
        return sql_texts.contains(column, str(value))
    matches: ColumnElement[bool] = column == value
    return matches


def _in_document(document: ColumnElement[object], comparison: Comparison) -> ColumnElement[bool]:
    """Return the condition of a key of a document; a number is compared by its value."""
    text = sql_texts.json_text(document, comparison.keys)
    number = sql_texts.json_number(document, comparison.keys)
    conditions = []
    for value in comparison.values:
        if comparison.operator in _ORDER:
            conditions.append(_ORDER[comparison.operator](number, value))
            continue
        conditions.append(_compares(comparison.operator, value, text))
        if isinstance(value, str) and grammar.is_number(value):
            conditions.append(number == float(value))
    return or_(*conditions)


def _lowered(value: Value) -> Value:
    if isinstance(value, Pattern):
        return Pattern(tuple(sql_texts.folded(part) for part in value.parts))
    return sql_texts.folded(value) if isinstance(value, str) else value


def _of_host(value: Value) -> list[Value]:
    """Return a host as an address may have it: alone or in a URL, with a port or a path."""
    parts = value.parts if isinstance(value, Pattern) else (value,)
    forms: list[tuple[str, ...]] = []
    for start in ((parts[0],), ("", f"://{parts[0]}")):
        host = (*start, *parts[1:])
        forms += [host, *((*host[:-1], f"{host[-1]}{sign}", "") for sign in ":/")]
    return [Pattern(form) if len(form) > 1 else form[0] for form in forms]
