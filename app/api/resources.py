"""
Resources: what a kind of thing shows of its rows, and the answers that are the same for every kind.

A `Resource` is declared once, as a table of its fields; lists, single items, their links and their
JSON Schema follow from it, and `resource_routes` makes its routes. A page costs one query, whatever
it shows; documents go from the database to the answer without being decoded.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar
from uuid import UUID

import orjson
from flask import Response
from sqlalchemy import (
    JSON,
    Column,
    ColumnElement,
    FromClause,
    Join,
    Row,
    Select,
    Text,
    cast,
    select,
)
from sqlalchemy.orm import Session

from app.api import versions
from app.api.answers import host, json, links, runtime
from app.api.errors import Misaddressed
from app.api.openapi.returns import Returns, listed
from app.api.openapi.shapes import (
    LINKS,
    Component,
    Shape,
    column_shape,
    column_shapes,
    some,
    versioned,
)
from app.api.paging import chosen, collection, page_of, shape
from app.api.policy import enforce
from app.api.schemas.common import is_ident
from app.errors import NotFound
from app.kit.identifiers import is_uuid
from app.kit.paging import fetch
from app.models import Base

Query = Mapping[str, Any]
View = dict[str, Any]
Model = TypeVar("Model", bound=Base)
Narrow = Callable[[Select[Any]], Select[Any]]


@dataclass(frozen=True, slots=True)
class Parent:
    """
    A thing to which rows belong, and which the path of their list names.

    path: of one. one: the noun in the names of handlers. label: the noun in summaries. condition:
    that of its rows, from the identifier in the path; raises Misaddressed, NotFound. since: the
    version of the list.
    """

    path: str
    one: str
    label: str
    condition: Callable[[str], ColumnElement[bool]]
    since: int = versions.MIN


@dataclass(frozen=True, eq=False)
class Resource(Generic[Model]):
    """
    One kind of thing.

    name: as in `versions.FIELDS` and in messages. path: of the collection under /v1. short: the
    fields of a list's items. shown: every field, and `links`, in the order in which Ironic shows
    them; columns of `model` but for those that follow. joined: columns of other tables, which
    `source` joins, and subqueries. computed: field -> its value, from a row and the URL that links
    begin with; what it needs of the row is in `sources`. masked: column -> what makes its document
    fit to be seen. links: sub-collections that an item links to. named: the minor version from
    which a path may name an item instead of giving its UUID; None for never. schema: the name of
    an item's JSON Schema. shapes: field -> its schema, for computed fields, and for others of which
    more is known than their column tells.
    """

    name: str
    path: str
    schema: str
    model: type[Model]
    short: tuple[str, ...]
    shown: tuple[str, ...]
    joined: Mapping[str, ColumnElement[Any]] = field(default_factory=dict)
    source: Callable[[], FromClause] | None = None
    computed: Mapping[str, Callable[[Row[Any], str], Any]] = field(default_factory=dict)
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    masked: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    links: tuple[str, ...] = ()
    named: int | None = None
    shapes: Mapping[str, Shape] = field(default_factory=dict)

    @cached_property
    def full(self) -> tuple[str, ...]:
        """Every field that may be asked for."""
        return tuple(name for name in self.shown if name != "links")

    @cached_property
    def plain(self) -> tuple[str, ...]:
        """Columns of the model that are shown as they are."""
        others = {*self.joined, *self.computed, *self.links}
        return tuple(name for name in self.full if name not in others)

    @cached_property
    def _documents(self) -> frozenset[str]:
        columns = self.model.__table__.c
        return frozenset(name for name in self.plain if isinstance(columns[name].type, JSON))

    @cached_property
    def sortable(self) -> frozenset[str]:
        return frozenset(self.plain) - self._documents

    @cached_property
    def collection(self) -> str:
        """The key of the items in the document of a list."""
        return self.path.rpartition("/")[2]

    @cached_property
    def component(self) -> Component:
        """The JSON Schema of an item."""
        source = self.source() if self.source else None
        inner = isinstance(source, Join) and not source.isouter
        properties = column_shapes(self.model, self.plain)
        for name, each in self.joined.items():
            certain = inner and isinstance(each, Column) and not each.nullable
            properties[name] = column_shape(name, each, nullable=not certain)
        properties |= dict.fromkeys(self.links, LINKS)
        missing = self.computed.keys() - self.shapes.keys()
        if missing:
            raise TypeError(f"{self.name}: no JSON Schema is declared for {missing}")
        item = some({**properties, **self.shapes, "links": LINKS}, always=["links"])
        return Component(self.schema, versioned(self.name, item))

    @cached_property
    def item(self) -> Returns:
        """The answer that shows an item."""
        return Returns({200: self.component}, fields=(*self.full, "links"))

    @cached_property
    def items(self) -> Returns:
        """The answer that lists items."""
        return listed(self.collection, self.component, self.full, self.sortable)

    def whole(self) -> list[str]:
        """Every field that the request's version has."""
        return versions.visible(self.name, self.full)

    def query(self, wanted: Sequence[str]) -> Select[Any]:
        """A query for all that the wanted fields are made of; `id` and `uuid` are always there."""
        columns = self.model.__table__.c
        needed = {"id", "uuid", *wanted}
        needed.update(source for name in wanted for source in self.sources.get(name, ()))
        selected: list[ColumnElement[Any]] = []
        for column in columns:
            if column.name in needed and column.name not in self.joined:
                raw = column.name in self._documents and column.name not in self.masked
                selected.append(cast(column, Text).label(column.name) if raw else column)
        selected += [column.label(name) for name, column in self.joined.items() if name in needed]
        return select(*selected).select_from(self.source() if self.source else self.model.__table__)

    def views(self, rows: Sequence[Row[Any]], wanted: Sequence[str]) -> list[View]:
        """The rows of such a query, as the caller sees them."""
        base, asked = host(), frozenset(wanted)
        raw = [name for name in self._documents if name in asked and name not in self.masked]
        masked = [(name, mask) for name, mask in self.masked.items() if name in asked]
        computed = [(name, make) for name, make in self.computed.items() if name in asked]
        linked = [name for name in self.links if name in asked]
        order = [name for name in self.shown if name in asked or name == "links"]
        result = []
        for row in rows:
            view: View = {name: value for name, value in row._mapping.items() if name in asked}
            for name in raw:
                view[name] = orjson.Fragment(view[name] or b"null")
            for name, mask in masked:
                view[name] = mask(view[name])
            for name, make in computed:
                view[name] = make(row, base)
            view["links"] = links(f"{self.path}/{row.uuid}", base)
            for name in linked:
                view[name] = links(f"{self.path}/{row.uuid}/{name}", base)
            result.append({name: view[name] for name in order})
        return result

    def listing(
        self, query: Query, narrow: Narrow = lambda query: query, *, detail: bool = False
    ) -> Response:
        """
        A page of the rows that `narrow` leaves. query: what `ListQuery` gives; `detail` among it.
        detail: the route is that of the full form.

        Raises Invalid, NotAcceptable, NotFound for an unknown marker.
        """
        wanted = shape(query, self.name, short=self.short, full=self.full, detail=detail)
        page = page_of(query, self.name, sortable=self.sortable)
        with runtime().reading() as session:
            selected = enforce.narrowed(narrow(self.query(wanted)), self.model)
            rows = fetch(session, selected, self.model, page)
        last = rows[-1].uuid if len(rows) == page.limit else None
        return json(collection(self.collection, self.views(rows, wanted), page, last=last))

    def show(self, query: Query, ident: str) -> Response:
        """One item, whole or only the `fields` of the query. Raises Misaddressed, NotFound."""
        wanted = self.whole()
        if "fields_" in query:
            wanted = chosen(query["fields_"], self.name, self.full)
        found = self._one(self.identified(ident), wanted)
        if found is None:
            raise NotFound(self.name, ident)
        return json(found)

    def identified(self, ident: str) -> ColumnElement[bool]:
        """The condition for the item that a path means. Raises Misaddressed."""
        columns = self.model.__table__.c
        if is_uuid(ident):
            return columns.uuid == str(UUID(ident))
        if self.named is None or versions.current() < self.named:
            raise Misaddressed(f"Expected UUID for {self.name.split()[-1]}_uuid: {ident}")
        if not is_ident(ident):
            raise Misaddressed(f"Expected UUID or name for {self.name.split()[-1]}: {ident}")
        return columns.name == ident

    def id_of(self, ident: str) -> int:
        """The id of the item that a path or a filter names. Raises Misaddressed, NotFound."""
        with runtime().reading() as session:
            found = session.scalar(select(self.model.__table__.c.id).where(self.identified(ident)))
        if found is None:
            raise NotFound(self.name, ident)
        return int(found)

    def find(self, session: Session, ident: str) -> Model:
        """The row that a path means, locked until the transaction ends. Raises NotFound."""
        condition = self.identified(ident)
        row = session.scalar(select(self.model).where(condition).with_for_update())
        if row is None:
            raise NotFound(self.name, ident)
        return row

    def _one(self, condition: ColumnElement[bool], wanted: Sequence[str]) -> View | None:
        with runtime().reading() as session:
            rows = session.execute(self.query(wanted).where(condition)).all()
        return self.views(rows, wanted)[0] if rows else None
