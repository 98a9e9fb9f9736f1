"""Routes of the traits of nodes."""

from flask import Response

from app.api.node.node_identifiers import change_locked, node_of
from app.api.openapi.returns import ADDED, NO_CONTENT
from app.api.openapi.shapes import TEXT, array, exactly
from app.api.request.context import Query, RequestContext
from app.api.request.parsing import body
from app.api.request.routes import Routes
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
    return change_locked(context, ident, empty(204), service.replace, fields["traits"])


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
    location = f"{context.base_url}/v1/nodes/{ident}/traits/{trait}"
    return change_locked(context, ident, empty(204, location=location), service.add, trait)


@traits.declare(
    "DELETE", "/nodes/<ident>/traits", rule="baremetal:node:traits:delete", returns=NO_CONTENT
)
def remove_traits(context: RequestContext, ident: str) -> Response:
    """Remove all traits of a node"""
    return change_locked(context, ident, empty(204), service.replace, ())


@traits.declare(
    "DELETE",
    "/nodes/<ident>/traits/<trait>",
    rule="baremetal:node:traits:delete",
    returns=NO_CONTENT,
)
def remove_trait(context: RequestContext, ident: str, trait: str) -> Response:
    """Remove a trait of a node"""
    return change_locked(context, ident, empty(204), service.remove, trait)
