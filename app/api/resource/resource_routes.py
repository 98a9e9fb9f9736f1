"""
Common routes of resources: lists, and an item's creation, display, change and deletion.

    PORT_ROUTES = ResourceRoutes(PORT, ports, "port", "ports", rule="baremetal:port")
    PORT_ROUTES.lists(PortFilters, narrow, details=True)
    PORT_ROUTES.changes(PortChange(), without_context(service.change))
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from flask import Response
from marshmallow import Schema
from sqlalchemy import Select
from sqlalchemy.orm import InstrumentedAttribute, Session

from app.api.openapi.returns import LOCATION, NO_CONTENT, Returns, json_patch
from app.api.request.context import Fields, Query, RequestContext, View
from app.api.request.paging import equal_to
from app.api.request.patching import parse, patched
from app.api.request.routes import Routes
from app.api.request.transactions import in_transaction
from app.api.resource.resources import Model, Parent, Resource
from app.api.transport.errors import Misaddressed
from app.api.transport.responses import empty, json
from app.api.values.value_types import FieldsQuery
from app.models import Base
from app.rows.uuid_or_name import is_uuid

Narrow = Callable[[RequestContext, Select[Any], Query], Select[Any]]
P = ParamSpec("P")
T = TypeVar("T")


def without_context(function: Callable[P, T]) -> Callable[Concatenate[RequestContext, P], T]:
    """Return a callback that ignores the request, from a function that knows of none."""

    @wraps(function)
    def callback(_context: RequestContext, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)

    return callback


def by_value(*columns: InstrumentedAttribute[Any]) -> Narrow:
    """Return the filters of a list by columns, each for the parameter of its name."""
    columns_by_name = {column.key: column for column in columns}
    return lambda _context, statement, query: equal_to(statement, query, columns_by_name)


@dataclass(frozen=True, eq=False)
class ResourceRoutes(Generic[Model]):
    """Declaration of a resource's routes, by one method call for each."""

    resource: Resource[Model]
    #: The blueprint.
    routes: Routes
    #: Nouns in the names of handlers.
    one: str
    many: str
    #: Prefix of the policy rules.
    rule: str
    #: Status of write requests in older versions, as in `Routes.declare`.
    gone: int = 404
    #: Noun in summaries; the resource's name by default.
    label: str | None = None

    def lists(
        self,
        schema: type[Schema],
        narrow: Narrow = lambda _context, statement, _query: statement,
        *,
        parent: Parent | None = None,
        check: Callable[[Query], None] | None = None,
        details: bool = False,
        rule: str = "list",
        query: str | None = None,
        closed: bool = True,
    ) -> None:
        """
        Declare GET of the collection, or of the part of it that belongs to a parent.

        schema: of the query. narrow: applies the query's filters. check: raises for parameters that
        exclude each other. details: declare a second list with all fields, at `/detail`. closed:
        refuse writes below the parent.
        """
        path = f"{parent.path if parent else ''}/{self.resource.path}"
        since = parent.since if parent else self.routes.since
        for detail in (False, True) if details else (False,):
            self.routes.declare(
                "GET",
                f"{path}/detail" if detail else path,
                since=since,
                query=query,
                rule=f"{self.rule}:{rule}",
                returns=self.resource.items,
                name=self._list_name(parent, detail),
                summary=self._list_summary(parent, detail),
            )(self._list(schema, narrow, parent, check, detail))
        if parent and closed:
            self.routes.closed(path, since)

    def _list(
        self,
        schema: type[Schema],
        narrow: Narrow,
        parent: Parent | None,
        check: Callable[[Query], None] | None,
        detail: bool,
    ) -> Callable[..., Response]:
        @self.routes.arguments(schema, location="query")
        def answer(context: RequestContext, query: Query, **path: str) -> Response:
            belonging = [parent.condition(context, *path.values())] if parent else []
            if check:
                check(query)

            def narrowed(statement: Select[Any]) -> Select[Any]:
                return narrow(context, statement.where(*belonging), query)

            return self.resource.listing(context, query, narrowed, detail=detail)

        return answer

    def creates(
        self,
        schema: type[Schema],
        create: Callable[[RequestContext, Session, Fields], Base],
        *,
        prepare: Callable[[RequestContext, Fields], Fields] | None = None,
        summary: str | None = None,
    ) -> None:
        """
        Declare POST to the collection.

        schema: of the body. create: adds the row, in a transaction that may be retried. prepare:
        checks the fields before it, and returns those to use; by default it refuses fields that are
        newer than the request's version.
        """

        @self.routes.declare(
            "POST",
            f"/{self.resource.path}",
            gone=self.gone,
            rule=f"{self.rule}:create",
            returns=Returns({201: self.resource.component}, LOCATION),
            name=f"create_{self.one}",
            summary=summary or f"Create {self._an_item}",
        )
        @self.routes.arguments(schema)
        def answer(context: RequestContext, fields: Fields) -> Response:
            if prepare:
                fields = prepare(context, fields)
            else:
                context.version.check_body(self.resource.name, fields)

            def work(session: Session) -> Response:
                return self.created(context, session, create(context, session, fields))

            return in_transaction(context, work)

    def shows(self, *, rule: str = "get", query: str | None = None) -> None:
        """Declare GET of an item."""

        @self.routes.declare(
            "GET",
            self._item,
            query=query,
            rule=f"{self.rule}:{rule}",
            returns=self.resource.item,
            name=f"show_{self.one}",
            summary=f"Show {self._an_item}",
        )
        @self.routes.arguments(FieldsQuery, location="query")
        def answer(context: RequestContext, query: Query, **path: str) -> Response:
            return self.resource.show(context, query, *path.values())

    def changes(
        self,
        schema: Schema,
        apply: Callable[[RequestContext, Session, Model, Fields], None],
        *,
        since: int | None = None,
    ) -> None:
        """
        Declare PATCH of an item.

        schema: of the fields that may be changed. apply: changes the row, from field -> new value;
        None for a removed field.
        """

        @self.routes.declare(
            "PATCH",
            self._item,
            since=since,
            gone=self.gone,
            rule=f"{self.rule}:update",
            returns=self.resource.component,
            takes=json_patch(schema),
            name=f"change_{self.one}",
            summary=f"Change {self._an_item} by a JSON patch",
        )
        def answer(context: RequestContext, **path: str) -> Response:
            changes = parse(context, self.resource.name, schema)

            def work(session: Session) -> Response:
                row = self.resource.find(context, session, *path.values())
                if changes:
                    apply(context, session, row, patched(schema, row, changes))
                return json(self.read_item(context, session, row))

            return in_transaction(context, work)

    def deletes(
        self, remove: Callable[[RequestContext, Session, Model], None], *, by_name: bool = True
    ) -> None:
        """Declare DELETE of an item. by_name: accept a name in the path, where GET does."""

        @self.routes.declare(
            "DELETE",
            self._item,
            gone=self.gone,
            rule=f"{self.rule}:delete",
            returns=NO_CONTENT,
            name=f"delete_{self.one}",
            summary=f"Delete {self._an_item}",
        )
        def answer(context: RequestContext, **path: str) -> Response:
            (ident,) = path.values()
            if not (by_name or is_uuid(ident)):
                raise Misaddressed(f"Expected UUID for {self.one}_uuid: {ident}")

            def work(session: Session) -> None:
                remove(context, session, self.resource.find(context, session, ident))

            return in_transaction(context, work, empty(204))

    def created(self, context: RequestContext, session: Session, row: Any) -> Response:
        """Return the response with a new item as its transaction leaves it."""
        view = self.read_item(context, session, row)
        return json(view, 201, location=view["links"][0]["href"])

    def read_item(self, context: RequestContext, session: Session, row: Any) -> View:
        """Read the item inside the transaction, before another one can change it."""
        session.flush()
        context.audit.concern(row.uuid, getattr(row, "name", None))
        is_row = self.resource.model.__table__.c.uuid == row.uuid
        fields = self.resource.visible_fields(context.version)
        rows = session.execute(self.resource.query(fields).where(is_row)).all()
        return self.resource.views(context, rows, fields)[0]

    @property
    def _item(self) -> str:
        """Path of an item."""
        return f"/{self.resource.path}/<{'uuid' if self.resource.names_since is None else 'ident'}>"

    @property
    def _an_item(self) -> str:
        label = self.label or self.resource.name
        return f"{'an' if label[0] in 'aeiou' else 'a'} {label}"

    def _list_name(self, parent: Parent | None, detail: bool) -> str:
        noun = f"{self.one}_details" if detail else self.many
        return f"list_{noun}_of_{parent.one}" if parent else f"list_{noun}"

    def _list_summary(self, parent: Parent | None, detail: bool) -> str:
        label = self.label or self.resource.name
        noun = f"{label}es" if label.endswith("ch") else f"{label}s"
        noun = label if self.one == self.many else noun
        items = f"the {noun} of a {parent.label}" if parent else noun
        return f"List {items}{' with all their fields' if detail else ''}"
