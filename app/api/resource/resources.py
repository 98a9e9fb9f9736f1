"""
Resources: declaration of the fields that a collection of the API shows, and its responses.

A `Resource` is declared once, as a table of its fields; lists, single items, their links and their
JSON Schema derive from it, and `resource_routes` declares its routes. A page costs one query,
regardless of its fields; JSON documents are passed from the database to the response undecoded.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar
from uuid import UUID

import orjson
from flask import Response
from sqlalchemy import Column, ColumnElement, FromClause, Join, Row, Select, Text, cast, select
from sqlalchemy.orm import Session

from app.api.declarations import versions
from app.api.declarations.versions import Version
from app.api.openapi.returns import Returns, listed
from app.api.openapi.shapes import (
    LINKS,
    Component,
    Shape,
    column_shape,
    column_shapes,
    subset_of,
    versioned,
)
from app.api.policy.access import Access
from app.api.request.context import Query, RequestContext, View
from app.api.request.paging import page_answer, page_of, requested_fields, rows_of, shape
from app.api.transport.errors import Misaddressed
from app.api.transport.responses import json, links
from app.api.values.value_types import is_ident
from app.db.sealing import has_sealed, keyring_of
from app.db.secret_columns import JSON_TYPES, place_of
from app.errors import NotFound
from app.models import Base
from app.rows.uuid_or_name import is_uuid

Model = TypeVar("Model", bound=Base)
Narrow = Callable[[Select[Any]], Select[Any]]


@dataclass(frozen=True, slots=True)
class Parent:
    """Owner of rows, identified in the path of their list: the node of `/nodes/<ident>/ports`."""

    #: Path of the owner.
    path: str
    #: Noun in the names of handlers.
    one: str
    #: Noun in summaries.
    label: str
    #: SQL condition for its rows, from the identifier in the path. Raises Misaddressed, NotFound.
    condition: Callable[[RequestContext, str], ColumnElement[bool]]
    #: First minor version of the list.
    since: int = versions.MIN


@dataclass(frozen=True, eq=False)
class Resource(Generic[Model]):
    """A collection of the API, its fields and their sources."""

    #: Name as in `versions.FIELDS` and in messages.
    name: str
    #: Path of the collection under /v1.
    path: str
    #: Name of an item's JSON Schema.
    schema: str
    model: type[Model]
    #: Fields of a list's items.
    short: tuple[str, ...]
    #: Every field and `links`, in Ironic's order; columns of `model` unless declared below.
    all_fields: tuple[str, ...]
    #: Columns of tables that `source` joins, and subqueries.
    joined: Mapping[str, ColumnElement[Any]] = field(default_factory=dict)
    #: FROM clause of queries; the model's table by default.
    source: FromClause | None = None
    #: Column -> function of its value without secrets, from the caller's rights and the row.
    masked: Mapping[str, Callable[[Access, Row[Any]], Any]] = field(default_factory=dict)
    #: Further columns that these functions read.
    masked_by: tuple[str, ...] = ()
    #: Sub-collections that an item links to.
    links: tuple[str, ...] = ()
    #: First minor version that accepts names as well as UUIDs in paths, if any does.
    names_since: int | None = None
    #: Field -> JSON Schema, where the column's type is less precise.
    shapes: Mapping[str, Shape] = field(default_factory=dict)

    @cached_property
    def full(self) -> tuple[str, ...]:
        """Every field that a query may select."""
        return tuple(name for name in self.all_fields if name != "links")

    @cached_property
    def plain(self) -> tuple[str, ...]:
        """Fields that are columns of the model."""
        further_fields = {*self.joined, *self.links}
        return tuple(name for name in self.full if name not in further_fields)

    @cached_property
    def _documents(self) -> frozenset[str]:
        columns = self.model.__table__.c
        return frozenset(name for name in self.plain if isinstance(columns[name].type, JSON_TYPES))

    @cached_property
    def sortable(self) -> frozenset[str]:
        return frozenset(self.plain) - self._documents - self.masked.keys()

    @cached_property
    def collection(self) -> str:
        """The key of the items in the document of a list."""
        return self.path.rpartition("/")[2]

    @cached_property
    def component(self) -> Component:
        """JSON Schema of an item."""
        inner = isinstance(self.source, Join) and not self.source.isouter
        properties = column_shapes(self.model, self.plain)
        for name, column in self.joined.items():
            certain = inner and isinstance(column, Column) and not column.nullable
            properties[name] = column_shape(name, column, nullable=not certain)
        properties |= dict.fromkeys(self.links, LINKS)
        item = subset_of({**properties, **self.shapes, "links": LINKS}, always=["links"])
        return Component(self.schema, versioned(self.name, item))

    @cached_property
    def item(self) -> Returns:
        """Response that shows an item."""
        return Returns({200: self.component}, fields=(*self.full, "links"))

    @cached_property
    def items(self) -> Returns:
        """Response that lists items."""
        return listed(self.collection, self.component, self.full, self.sortable)

    def visible_fields(self, version: Version) -> list[str]:
        """Every field of the version."""
        return version.visible(self.name, self.full)

    def query(self, fields: Sequence[str]) -> Select[Any]:
        """Select the columns that the wanted fields need, always with `id` and `uuid`."""
        columns = self.model.__table__.c
        column_names = {"id", "uuid", *self.masked_by, *fields}
        selected_columns: list[ColumnElement[Any]] = []
        for column in columns:
            if column.name in column_names and column.name not in self.joined:
                raw = column.name in self._documents and column.name not in self.masked
                selected_columns.append(cast(column, Text).label(column.name) if raw else column)
        selected_columns += [
            column.label(name) for name, column in self.joined.items() if name in column_names
        ]
        return select(*selected_columns).select_from(
            self.model.__table__ if self.source is None else self.source
        )

    def views(
        self, context: RequestContext, rows: Sequence[Row[Any]], fields: Sequence[str]
    ) -> list[View]:
        """Build the documents of rows that `query` selected."""
        base, names = context.base_url, frozenset(fields)
        raw = [name for name in self._documents if name in names and name not in self.masked]
        masked = [(name, mask) for name, mask in self.masked.items() if name in names]
        linked = [name for name in self.links if name in names]
        order = [name for name in self.all_fields if name in names or name == "links"]
        keyring, columns = keyring_of(context.runtime.engine.dialect), self.model.__table__.c
        result = []
        for row in rows:
            view: View = {name: value for name, value in row._mapping.items() if name in names}
            for name in raw:
                text = view[name] or "null"
                if has_sealed(text):
                    text = keyring.open_text(text, place_of(columns[name], {**row._mapping}))
                view[name] = orjson.Fragment(text)
            for name, mask in masked:
                view[name] = mask(context.access, row)
            view["links"] = links(f"{self.path}/{row.uuid}", base)
            for name in linked:
                view[name] = links(f"{self.path}/{row.uuid}/{name}", base)
            result.append({name: view[name] for name in order})
        return result

    def listing(
        self,
        context: RequestContext,
        query: Query,
        narrow: Narrow = lambda query: query,
        *,
        detail: bool = False,
    ) -> Response:
        """
        Return a page of the rows that the caller may list and `narrow` selects.

        query: as loaded by `ListQuery`. detail: the route is the one for details.

        Raises Invalid, NotAcceptable, NotFound for an unknown marker.
        """
        fields = shape(context, query, self.name, short=self.short, full=self.full, detail=detail)
        page = page_of(context, query, self.name, sortable=self.sortable)
        with context.runtime.reading() as session:
            statement = narrow(self.query(fields))
            rows = rows_of(session, context.scope, statement, self.model, page)
        items = self.views(context, rows, fields)
        return page_answer(context, self.collection, items, page, rows)

    def show(self, context: RequestContext, query: Query, ident: str) -> Response:
        """Return an item with the fields that the query names. Raises Misaddressed, NotFound."""
        visible_fields = self.visible_fields(context.version)
        fields = requested_fields(context, query, self.name, self.full, visible_fields)
        item = self._one(context, self.identified(context.version, ident), fields)
        if item is None:
            raise NotFound(self.name, ident)
        return json(item)

    def identified(self, version: Version, ident: str) -> ColumnElement[bool]:
        """Return the SQL condition for the item that a path identifies. Raises Misaddressed."""
        columns = self.model.__table__.c
        if is_uuid(ident):
            return columns.uuid == str(UUID(ident))
        if self.names_since is None or version < self.names_since:
            raise Misaddressed(f"Expected UUID for {self.name.split()[-1]}_uuid: {ident}")
        if not is_ident(ident):
            raise Misaddressed(f"Expected UUID or name for {self.name.split()[-1]}: {ident}")
        return columns.name == ident

    def id_of(self, context: RequestContext, ident: str) -> int:
        """
        Return the primary key of the identified item.

        In a list, an item that the caller may not list does not exist.

        Raises Misaddressed, NotFound.
        """
        identified = self.identified(context.version, ident)
        condition = identified & context.scope.listable(self.model)
        with context.runtime.reading() as session:
            item_id = session.scalar(select(self.model.__table__.c.id).where(condition))
        if item_id is None:
            raise NotFound(self.name, ident)
        return int(item_id)

    def find(self, context: RequestContext, session: Session, ident: str) -> Model:
        """
        Load the row that a path identifies, and lock it until the transaction ends.

        Raises Misaddressed, NotFound.
        """
        condition = self.identified(context.version, ident)
        row = session.scalar(select(self.model).where(condition).with_for_update())
        if row is None:
            raise NotFound(self.name, ident)
        context.audit.concern(row.uuid, getattr(row, "name", None))  # type: ignore[attr-defined]
        return row

    def _one(
        self, context: RequestContext, condition: ColumnElement[bool], fields: Sequence[str]
    ) -> View | None:
        with context.runtime.reading() as session:
            rows = session.execute(self.query(fields).where(condition)).all()
        return self.views(context, rows, fields)[0] if rows else None
