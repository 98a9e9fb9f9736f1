"""
Free words: words without a field, which select the nodes with them in any of several fields.

The texts of these fields are in the short rows of `node_search`, of which a word scans all: a tenth
of the cost of a scan of `nodes`. A pattern is compared with the fields themselves, but only of the
nodes whose texts have its fixed parts.
"""

from collections.abc import Callable, Iterable, Sequence

from sqlalchemy import ColumnElement, Select, and_, case, or_, select, union_all

from app.db.dialect_texts import declare_texts
from app.lifecycle.provision_states import State
from app.models import Node, NodeSearch
from app.selection import sql_texts
from app.selection.tree import Pattern, Word

_NODES = Node.__table__
_SEARCH = NodeSearch.__table__
Rows = Select[object]

#: Column of `node_search` -> the field of a node whose visibility it has; empty: the node's.
TEXTS = {"texts": "", "related": "", "last_error": "last_error", "bmc": "driver_info"}


def rows(
    word: Word,
    visible: Callable[[str], ColumnElement[bool] | None],
    fits: ColumnElement[bool] | None,
    failed: Rows,
) -> Sequence[Rows]:
    """
    Return queries for the ids of the nodes that have a word; all of them together select it.

    visible: returns the condition of the nodes of which the caller sees a field; None: of all.
    fits: condition of the nodes that have a pattern in one of the fields; None for a word without
    wildcards. failed: nodes whose standing failure has the word in its code.
    """
    states = [state for state in State if sql_texts.has(word.value, state)]
    queries = [failed]
    if states:
        queries.append(select(_NODES.c.id).where(_NODES.c.provision_state.in_(states)))
    if fits is not None and isinstance(word.value, Pattern):
        parts = (_contains(TEXTS, part) for part in word.value.parts if part)
        return [*queries, select(_SEARCH.c.node_id).where(*parts, _of_node(fits))]
    text = str(word.value)
    open_texts = [name for name, field in TEXTS.items() if visible(field) is None]
    queries.append(select(_SEARCH.c.node_id).where(_contains(open_texts, text)))
    for name, field in TEXTS.items():
        condition = visible(field)
        if condition is not None:
            hidden = _contains([name], text)
            queries.append(select(_SEARCH.c.node_id).where(hidden, _of_node(condition)))
    return queries


def selects(queries: Sequence[Rows], *, drives: bool) -> ColumnElement[bool]:
    """
    Return the condition of nodes whose id one of the queries returns.

    drives: the condition holds for each selected node, so that their ids may be looked up.
    """
    union = union_all(*queries)
    return _AmongIds(_NODES.c.id, union.scalar_subquery()) if drives else _NODES.c.id.in_(union)


def narrowed(
    passes: ColumnElement[bool], name: str, values: Iterable[str | Pattern]
) -> ColumnElement[bool]:
    """
    Return the condition of a comparison of a field with some texts, which reads few wide rows.

    The column of `node_search` with the field's name is read first: errors and documents in `nodes`
    are compared only where it has the fixed parts of a text. CASE keeps this order, as PostgreSQL
    underrates the cost of parsing documents.
    """
    texts = []
    for value in values:
        parts = value.parts if isinstance(value, Pattern) else (value,)
        # a column without a value does not even contain the empty text
        fixed = [part for part in parts if part] or [""]
        texts.append(and_(*(_contains([name], part) for part in fixed)))
    candidates = select(_SEARCH.c.node_id).where(or_(*texts))
    return case((_NODES.c.id.in_(candidates), passes))


def _contains(names: Iterable[str], part: str) -> ColumnElement[bool]:
    """Return the condition that one of the texts contains a part, in capital or small letters."""
    return or_(*(sql_texts.has_folded(_SEARCH.c[name], part) for name in names))


def _of_node(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return a condition on the node of a row of `node_search`, which is computed row by row."""
    query = select(condition).select_from(_NODES).where(_NODES.c.id == _SEARCH.c.node_id)
    return query.correlate(_SEARCH).scalar_subquery()


class _AmongIds(sql_texts.Condition):
    """
    A column is one of the values of a query: (column, query).

    On PostgreSQL as an array, which is computed once and looked up in the index of the column: for
    a subquery it may compare each node first.
    """

    inherit_cache = True


declare_texts(_AmongIds, sqlite="({0} IN {1})", postgresql="({0} = ANY (ARRAY {1}))")
