"""Routes of /v1/runbooks: runbooks, and the traits that their nodes need."""

from typing import Any

from flask import Response
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.api.node.traits import TRAITS, checked
from app.api.openapi.returns import ADDED, NO_CONTENT
from app.api.request.context import Fields, Query, RequestContext
from app.api.request.routes import Routes
from app.api.request.transactions import in_transaction
from app.api.resource.resource_routes import ResourceRoutes, without_context
from app.api.resource.resources import Resource
from app.api.schemas.templates import RunbookChange, RunbookCreate, Traits
from app.api.transport.responses import empty, json
from app.api.values.value_types import ListQuery
from app.errors import Invalid, NotFound
from app.inventory import runbooks as service
from app.inventory.traits import is_trait
from app.models import Runbook
from app.text.masking import mask

SINCE = 92
#: The version from which a runbook has traits, and a name that need not be a trait.
TRAITS_SINCE = 112

runbooks = Routes("runbooks", "Runbooks: named lists of clean or service steps", since=SINCE)
RUNBOOK = Resource(
    name="runbook",
    path="runbooks",
    schema="Runbook",
    model=Runbook,
    short=("uuid", "name"),
    all_fields=(
        "uuid", "created_at", "updated_at", "name", "extra", "public", "owner", "disable_ramdisk",
        "description", "links", "steps", "traits",
    ),
    masked={"steps": lambda _access, row: mask(row.steps)},
    names_since=SINCE,
)  # fmt: skip


def _checked(context: RequestContext, fields: Fields) -> dict[str, Any]:
    context.version.check_body("runbook", fields)
    fields = context.access.with_owner("runbook", fields)
    if context.version < TRAITS_SINCE and not is_trait(fields["name"]):
        raise Invalid(f"name: {fields['name']!r} is not a trait, as it has to be before 1.112")
    return fields


ROUTES = ResourceRoutes(RUNBOOK, runbooks, "runbook", "runbooks", "baremetal:runbook", gone=405)
ROUTES.lists(ListQuery)
ROUTES.creates(RunbookCreate, without_context(service.create), prepare=_checked)
ROUTES.shows()
ROUTES.changes(RunbookChange(), without_context(service.change))
ROUTES.deletes(without_context(Session.delete))


@runbooks.declare(
    "GET",
    "/runbooks/<ident>/traits",
    since=TRAITS_SINCE,
    rule="baremetal:runbook:get",
    returns=TRAITS,
)
def list_runbook_traits(context: RequestContext, ident: str) -> Response:
    """List the traits of a runbook"""
    with context.runtime.reading() as session:
        traits = session.scalar(
            select(Runbook.traits).where(RUNBOOK.identified(context.version, ident))
        )
    if traits is None:
        raise NotFound("runbook", ident)
    return json({"traits": traits})


@runbooks.declare(
    "PUT",
    "/runbooks/<ident>/traits",
    since=TRAITS_SINCE,
    rule="baremetal:runbook:update",
    returns=NO_CONTENT,
)
@runbooks.arguments(Traits)
def set_runbook_traits(context: RequestContext, fields: Query, ident: str) -> Response:
    """Set all traits of a runbook"""
    return _set(context, ident, lambda _traits: fields["traits"])


@runbooks.declare(
    "PUT",
    "/runbooks/<ident>/traits/<trait>",
    since=TRAITS_SINCE,
    rule="baremetal:runbook:update",
    returns=ADDED,
)
def add_runbook_trait(context: RequestContext, ident: str, trait: str) -> Response:
    """Add a trait to a runbook"""
    checked(context, trait)
    answer = empty(204, location=f"{context.base_url}/v1/runbooks/{ident}/traits/{trait}")
    return _set(context, ident, lambda traits: [*traits, trait], answer)


@runbooks.declare(
    "DELETE",
    "/runbooks/<ident>/traits",
    since=TRAITS_SINCE,
    rule="baremetal:runbook:update",
    returns=NO_CONTENT,
)
def remove_runbook_traits(context: RequestContext, ident: str) -> Response:
    """Remove all traits of a runbook"""
    return _set(context, ident, lambda _traits: [])


@runbooks.declare(
    "DELETE",
    "/runbooks/<ident>/traits/<trait>",
    since=TRAITS_SINCE,
    rule="baremetal:runbook:update",
    returns=NO_CONTENT,
)
def remove_runbook_trait(context: RequestContext, ident: str, trait: str) -> Response:
    """Remove a trait of a runbook, if it has it"""
    return _set(context, ident, lambda traits: [name for name in traits if name != trait])


def _set(
    context: RequestContext, ident: str, change: Any, answer: Response | None = None
) -> Response:
    """
    Replace the traits by `change(traits)`; answer 204, if there is no other answer.

    Raises Misaddressed, NotFound.
    """

    def work(session: Session) -> None:
        runbook = RUNBOOK.find(context, session, ident)
        service.set_traits(runbook, change(runbook.traits))

    return in_transaction(context, work, answer or empty(204))
