"""Route of the policy rules that a caller passes: an addition to Ironic's API."""

from difflib import get_close_matches

from flask import Response
from marshmallow import Schema, validate

from app.api.openapi.shapes import TEXT, array, exactly
from app.api.policy.defaults import RULES
from app.api.request.context import Query, RequestContext
from app.api.request.routes import Routes
from app.api.transport.responses import json
from app.api.values.value_types import CommaSeparated, Ident
from app.errors import Invalid

permissions = Routes("permissions", "Policy rules that the caller passes")

#: Most rules of a request: oslo.policy takes a millisecond for each.
MOST_RULES = 50


class PermissionsQuery(Schema):
    rules = CommaSeparated(
        lower=False,
        required=True,
        validate=validate.Length(1, MOST_RULES),
        metadata={"description": "Names of policy rules, as baremetal:node:create"},
    )
    node = Ident(metadata={"description": "Node that the rules are checked for"})


@permissions.declare("GET", "/permissions", returns=exactly({"rules": array(TEXT)}))
@permissions.arguments(PermissionsQuery, location="query")
def list_permissions(context: RequestContext, query: Query) -> Response:
    """
    List which of some policy rules the caller passes

    With `node`, for that node; otherwise for resources of the caller's project. The state of a
    resource and the contents of a request may still be reasons to refuse it.
    """
    for name in query["rules"]:
        if name not in RULES:
            near = get_close_matches(name, RULES, 1)
            hint = f"; the nearest is {near[0]!r}" if near else ""
            raise Invalid(f"rules: there is no rule {name!r}{hint}")
    return json({"rules": context.access.passed(query["rules"], query.get("node"))})
