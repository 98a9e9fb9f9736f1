"""
Paging of lists: query parameters, selected fields, and the link to the next page.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

from flask import Response
from sqlalchemy import Connection, Row, Select, SQLColumnExpression
from sqlalchemy.orm import Session

from app.api.declarations import versions
from app.api.policy.list_scope import ListScope
from app.api.request.context import Query, RequestContext
from app.api.transport.responses import json
from app.errors import Invalid
from app.models import Base
from app.rows.keyset_pages import Page, fetch
from app.rows.uuid_or_name import is_uuid

Item = dict[str, Any]
Statement = TypeVar("Statement", bound=Select[*tuple[Any, ...]])

DETAIL_SINCE = 43
#: Resources that take `detail` in older versions, too.
OLD_DETAIL = {"driver", "volume connector", "volume target"}


def page_of(
    context: RequestContext,
    query: Query,
    resource: str,
    *,
    sortable: Collection[str],
    by_uuid: bool = True,
) -> Page:
    """Return the page that the query requests. Raises Invalid, NotAcceptable."""
    descending = query.get("sort_dir") == "desc"
    largest = context.runtime.settings.api.max_limit
    marker, sort_key = query.get("marker"), query.get("sort_key") or "id"
    if marker == "" or (marker is not None and by_uuid and not is_uuid(marker)):
        expected = "UUID" if by_uuid else "the name of the last item"
        raise Invalid(f"Expected {expected} for marker: {marker}")
    context.version.require(versions.since(resource, sort_key), f"sort_key {sort_key}")
    if sort_key != "id" and sort_key not in sortable:
        raise Invalid(f"The sort_key value {sort_key!r} is an invalid field for sorting")
    return Page(min(query.get("limit", largest), largest), marker, sort_key, descending)


def equal_to(
    statement: Statement, query: Query, columns: Mapping[str, SQLColumnExpression[Any]]
) -> Statement:
    """
    Limit a query for rows by the parameters that the request has, each of which compares a column.

    columns: parameter -> its column.
    """
    conditions = [column == query[name] for name, column in columns.items() if name in query]
    return statement.where(*conditions)


def rows_of(
    session: Session | Connection,
    scope: ListScope,
    statement: Select[*tuple[Any, ...]],
    model: type[Base],
    page: Page,
) -> list[Row[*tuple[Any, ...]]]:
    """
    Return the rows of a page that are in the scope of the list.

    Raises NotFound: the marker identifies none of them.
    """
    statement = scope.narrowed(statement, model)
    return fetch(session, statement, model, page, among=scope.listable(model))


def shape(
    context: RequestContext,
    query: Query,
    resource: str,
    *,
    short: Sequence[str],
    full: Sequence[str],
    detail: bool = False,
) -> list[str]:
    """
    Return the fields to show of each item: the requested ones, or the full or the short form.

    detail: the route is the one for details, as /v1/nodes/detail.

    Raises Invalid, NotAcceptable.
    """
    fields, wants_detail = query.get("fields_"), query.get("detail")
    if "detail" in query and context.version < DETAIL_SINCE and resource not in OLD_DETAIL:
        raise Invalid(
            f"Invalid query parameter ?detail=True received. It needs API version 1.{DETAIL_SINCE}."
        )
    if "detail" in query and detail:
        raise Invalid("Unexpected arguments: detail: this is the list of details")
    if fields is None:
        return context.version.visible(resource, full if detail or wants_detail else short)
    if detail or wants_detail:
        raise Invalid("Can not specify ?detail=True and fields in the same request.")
    return checked_fields(context, fields, resource, full)


def requested_fields(
    context: RequestContext,
    query: Query,
    resource: str,
    full: Sequence[str],
    default: Sequence[str],
) -> Sequence[str]:
    """Return the fields of an item that the query names, or the default ones. Raises as below."""
    names = query.get("fields_")
    return default if names is None else checked_fields(context, names, resource, full)


def checked_fields(
    context: RequestContext, fields: Sequence[str], resource: str, full: Sequence[str]
) -> list[str]:
    """Check the fields that the query names. Raises Invalid, NotAcceptable."""
    unknown_fields = [field for field in fields if field not in full and field != "links"]
    if unknown_fields:
        raise Invalid(
            f"Field(s) {', '.join(unknown_fields)} are not valid for a {resource}. Schema error:"
            f" {unknown_fields[0]!r} is not one of {[*full]}"
        )
    context.version.check_fields(resource, fields)
    return list(fields)


def page_answer(
    context: RequestContext,
    name: str,
    items: Sequence[Any],
    page: Page,
    rows: Sequence[Any],
    *,
    marker: str = "uuid",
) -> Response:
    """
    Answer a page of a list; a full one has a link to the next page.

    rows: of the items. marker: their attribute after whose last value the next page starts.
    """
    document: Item = {name: items}
    if len(rows) == page.limit:
        arguments = [(key, value) for key, value in context.request.args.items(multi=True)]
        other_arguments = [
            (key, value) for key, value in arguments if key not in ("limit", "marker")
        ]
        query = urlencode(
            [*other_arguments, ("limit", page.limit), ("marker", getattr(rows[-1], marker))]
        )
        document["next"] = f"{context.base_url}{context.request.path}?{query}"
    return json(document)
