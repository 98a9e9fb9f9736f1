"""
The JSON Schemas of nodes, as `node_view` shows them.
"""

from app.api import node_view
from app.api.masking import DOCUMENTS
from app.api.openapi.returns import listed
from app.api.openapi.shapes import (
    DOCUMENT,
    FLAG,
    LINKS,
    NUMBER,
    TEXT,
    UUID,
    Component,
    column_shapes,
    many,
    maybe,
    one_of,
    some,
    versioned,
)
from app.models import Node
from app.states import State

STEP = {
    "interface": maybe(TEXT), "step": TEXT, "args": maybe(DOCUMENT), "priority": NUMBER,
    "abortable": FLAG, "requires_ramdisk": FLAG,
}  # fmt: skip
_FIELDS = {
    **column_shapes(Node, (*node_view.PLAIN, *node_view.OPEN, *DOCUMENTS)),
    # null in versions that do not have a state
    "provision_state": maybe(one_of(State)),
    "target_provision_state": maybe(one_of(State)),
    **{name: some(STEP) for name in node_view.STEPS},
    "allocation_uuid": maybe(UUID),
    "traits": many(TEXT),
    "conductor": maybe(TEXT),
}
NODE = Component("Node", versioned("node", some(
    {**_FIELDS, **dict.fromkeys((*node_view.LINKED, "links"), LINKS)}
)))  # fmt: skip
NODE_STATES = Component("NodeStates", versioned("node", some(
    {name: shape for name, shape in _FIELDS.items() if name in node_view.STATES}
)))  # fmt: skip

NODES = listed("nodes", NODE, node_view.FULL, node_view.SORTABLE)
#: Header of one node.
TAG = {"ETag": "Stands for all that callers can change of the node; for `If-Match`"}
