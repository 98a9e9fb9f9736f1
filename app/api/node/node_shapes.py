"""
JSON Schemas of nodes, as `node_view` shows them.
"""

from app.api.node import node_query
from app.api.openapi.returns import listed
from app.api.openapi.shapes import (
    BOOLEAN,
    DOCUMENT,
    LINKS,
    NUMBER,
    TEXT,
    UUID,
    Component,
    array,
    column_shapes,
    one_of,
    or_null,
    subset_of,
    versioned,
)
from app.api.policy.masking import DOCUMENTS
from app.hold_kinds import HoldKind
from app.models import Node
from app.states import State

STEP = {
    "interface": or_null(TEXT), "step": TEXT, "args": or_null(DOCUMENT), "priority": NUMBER,
    "abortable": BOOLEAN, "requires_ramdisk": BOOLEAN,
}  # fmt: skip
_FIELDS = {
    **column_shapes(Node, (*node_query.PLAIN, *node_query.OPEN, *DOCUMENTS)),
    # null in microversions that lack a state
    "provision_state": or_null(one_of(State)),
    "target_provision_state": or_null(one_of(State)),
    **{name: subset_of(STEP) for name in node_query.STEPS},
    "allocation_uuid": or_null(UUID),
    "traits": array(TEXT),
    "holds": array(one_of(HoldKind)),
    "conductor": or_null(TEXT),
}
NODE = Component("Node", versioned("node", subset_of(
    {**_FIELDS, **dict.fromkeys((*node_query.LINKED, "links"), LINKS)}
)))  # fmt: skip
NODE_STATES = Component("NodeStates", versioned("node", subset_of(
    {name: shape for name, shape in _FIELDS.items() if name in node_query.STATES}
)))  # fmt: skip

NODES = listed("nodes", NODE, node_query.CHOOSABLE, node_query.SORTABLE)
#: Header of one node.
TAG = {"ETag": "Changes with every field of the node that callers can change; for `If-Match`"}
