"""
Resources: what a kind of thing shows of its rows, and the answers that are the same for every kind.

A `Resource` is declared once, as a table of its fields; lists, single items and their links follow
from it. A page costs one query, whatever it shows; documents go from the database to the answer
without being decoded.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar
from uuid import UUID

import orjson
from flask import Response
from sqlalchemy import JSON, ColumnElement, FromClause, Row, Select, Text, cast, select
from sqlalchemy.orm import Session

from app.api import versions
from app.api.answers import host, json, links, runtime
from app.api.paging import chosen, collection, page_of, shape
from app.api.schemas.common import is_ident
from app.errors import Invalid, NotFound
from app.models import Base
from app.services.nodes import is_uuid
from app.services.paging import cut

Query = Mapping[str, Any]
View = dict[str, Any]
Model = TypeVar("Model", bound=Base)
Narrow = Callable[[Select[Any]], Select[Any]]


@dataclass(frozen=True, eq=False)
class Resource(Generic[Model]):
    """
    One kind of thing.

    name: as in `versions.FIELDS` and in messages. path: of the collection under /v1. short: the
    fields of a list's items. plain: columns of `model` that are shown as they are. joined: shown
    columns of other tables, which `source` joins. computed: field -> its value, from a row and the
    URL that links begin with; what it needs of the row is in `sources`. masked: column -> what
    makes its document fit to be seen. links: sub-collections that an item links to. named: the
    minor version from which a path may name an item instead of giving its UUID; None for never.
    """

    name: str
    path: str
    model: type[Model]
    short: tuple[str, ...]
    plain: tuple[str, ...]
    joined: Mapping[str, ColumnElement[Any]] = field(default_factory=dict)
    source: Callable[[], FromClause] | None = None
    computed: Mapping[str, Callable[[Row[Any], str], Any]] = field(default_factory=dict)
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    masked: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    links: tuple[str, ...] = ()
    named: int | None = None
    unsortable: frozenset[str] = frozenset()

    @cached_property
    def full(self) -> tuple[str, ...]:
        """Every field that may be asked for."""
        return (*self.plain, *self.joined, *self.computed)

    @cached_property
    def _documents(self) -> frozenset[str]:
        columns = self.model.__table__.c
        return frozenset(name for name in self.plain if isinstance(columns[name].type, JSON))

    @cached_property
    def sortable(self) -> frozenset[str]:
        return frozenset(self.plain) - self._documents - self.unsortable

    def whole(self) -> list[str]:
        """Every field that the request's version has."""
        return versions.visible(self.name, (*self.full, *self.links))

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
            result.append(view)
        return result

    def listing(self, query: Query, narrow: Narrow = lambda query: query) -> Response:
        """
        A page of the rows that `narrow` leaves. query: what `ListQuery` gives; `detail` among it.

        Raises Invalid, NotAcceptable, NotFound for an unknown marker.
        """
        wanted = shape(query, self.name, short=self.short, full=self.full)
        if query.get("detail"):
            wanted = self.whole()
        page = page_of(query, self.name, sortable=self.sortable)
        with runtime().reading() as session:
            selected = cut(session, narrow(self.query(wanted)), self.model, page)
            rows = session.execute(selected).all()
        last = rows[-1].uuid if len(rows) == page.limit else None
        name = self.path.rpartition("/")[2]
        return json(collection(name, self.views(rows, wanted), page, last=last))

    def details(self, query: Query, narrow: Narrow = lambda query: query) -> Response:
        """The same for the route /detail, which knows no `fields`."""
        if "fields_" in query:
            raise Invalid("Can't fetch a subset of fields with 'detail' set.")
        return self.listing({**query, "detail": True}, narrow)

    def show(self, query: Query, ident: str) -> Response:
        """One item, whole or only the `fields` of the query. Raises Invalid, NotFound."""
        wanted = self.whole()
        if "fields_" in query:
            wanted = chosen(query["fields_"], self.name, self.full)
        found = self._one(self.identified(ident), wanted)
        if found is None:
            raise NotFound(self.name, ident)
        return json(found)

    def created(self, uuid: str) -> Response:
        """The answer to the creation of an item."""
        return json(self.shown(uuid), 201, location=f"{host()}/v1/{self.path}/{uuid}")

    def changed(self, uuid: str) -> Response:
        """The answer to a change of an item."""
        return json(self.shown(uuid))

    def shown(self, uuid: str) -> View:
        """An item that was just written, whole."""
        found = self._one(self.model.__table__.c.uuid == uuid, self.whole())
        if found is None:
            raise NotFound(self.name, uuid)
        return found

    def identified(self, ident: str) -> ColumnElement[bool]:
        """The condition for the item that a path means. Raises Invalid."""
        columns = self.model.__table__.c
        if is_uuid(ident):
            return columns.uuid == str(UUID(ident))
        if self.named is None or versions.current() < self.named:
            raise Invalid(f"Expected a UUID but received {ident!r}.")
        if not is_ident(ident):
            raise Invalid(f"Expected a UUID or name but received {ident!r}.")
        return columns.name == ident

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
