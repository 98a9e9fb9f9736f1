"""Routes of the traits of nodes."""

from flask import Response
from sqlalchemy.orm import Session

from app.api.node.node_identifiers import locked, node_of
from app.api.openapi.returns import ADDED, NO_CONTENT
from app.api.openapi.shapes import TEXT, array, exactly
from app.api.request.context import Query, RequestContext
from app.api.request.parsing import body
from app.api.request.routes import Routes
from app.api.request.transactions import in_transaction
from app.api.schemas.templates import Traits
from app.api.transport.responses import empty, json
from app.api.values.value_types import not_a_trait
from app.errors import Invalid
from app.inventory import traits as service

traits = Routes("traits", "Traits of nodes, for scheduling", since=37)


TRAITS = exactly({"traits": array(TEXT)})


def checked(context: RequestContext, trait: str) -> None:
    """Check that the trait in a path is valid, and that the body is empty. Raises Invalid."""
    if not service.is_trait(trait):
        raise Invalid(f"Schema error for trait: {not_a_trait(trait)}")
    if body(context) not in ({}, None):
        raise Invalid(
            "One trait is added by its path alone, a body would set all of them: Schema error for"
            " body: Additional properties are not allowed (the body is to be empty)"
        )


@traits.declare(
    "GET", "/nodes/<ident>/traits", gone=406, rule="baremetal:node:traits:list", returns=TRAITS
)
def list_traits(context: RequestContext, ident: str) -> Response:
    """List the traits of a node"""
    with context.runtime.reading() as session:
        node = node_of(context, session, ident)
        return json({"traits": service.of_node(session, node)})


@traits.declare(
    "PUT", "/nodes/<ident>/traits", gone=405, rule="baremetal:node:traits:set", returns=NO_CONTENT
)
@traits.arguments(Traits)
def set_traits(context: RequestContext, fields: Query, ident: str) -> Response:
    """Set all traits of a node"""

    def work(session: Session) -> None:
        service.replace(session, locked(context, session, ident), fields["traits"])

    return in_transaction(context, work, empty(204))


@traits.declare(
    "PUT",
    "/nodes/<ident>/traits/<trait>",
    gone=405,
    rule="baremetal:node:traits:set",
    returns=ADDED,
)
def add_trait(context: RequestContext, ident: str, trait: str) -> Response:
    """Add a trait to a node"""
    checked(context, trait)

    def work(session: Session) -> None:
        service.add(session, locked(context, session, ident), trait)

    location = f"{context.base_url}/v1/nodes/{ident}/traits/{trait}"
    return in_transaction(context, work, empty(204, location=location))


@traits.declare(
    "DELETE", "/nodes/<ident>/traits", rule="baremetal:node:traits:delete", returns=NO_CONTENT
)
def remove_traits(context: RequestContext, ident: str) -> Response:
    """Remove all traits of a node"""

    def work(session: Session) -> None:
        service.replace(session, locked(context, session, ident), ())

    return in_transaction(context, work, empty(204))


@traits.declare(
    "DELETE",
    "/nodes/<ident>/traits/<trait>",
    rule="baremetal:node:traits:delete",
    returns=NO_CONTENT,
)
def remove_trait(context: RequestContext, ident: str, trait: str) -> Response:
    """Remove a trait of a node"""

    def work(session: Session) -> None:
        service.remove(session, locked(context, session, ident), trait)

    return in_transaction(context, work, empty(204))
