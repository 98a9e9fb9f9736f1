"""Request schemas of allocations."""

from marshmallow import Schema, fields

from app.api.values.value_types import (
    CommaSeparated,
    Document,
    Ident,
    Name,
    PageQuery,
    Text,
    Trait,
    Uuid,
)


class AllocationChange(Schema):
    name = Name(allow_none=True)
    extra = Document()


class AllocationCreate(AllocationChange):
    """New allocation; with `node`, a record of the allocation of a node that is in use already."""

    uuid = Uuid(allow_none=True)
    resource_class = Text(80, allow_none=True)
    traits = fields.List(Trait(), allow_none=True)
    candidate_nodes = fields.List(Ident(), allow_none=True)
    node = Ident(allow_none=True, metadata={"description": "Node that is in use already"})
    owner = Text(allow_none=True)


class AllocationFilters(PageQuery):
    fields_ = CommaSeparated(data_key="fields", metadata={"description": "Fields to show"})
    node = Ident()
    resource_class = Text(80)
    state = Text(metadata={"description": "allocating, active, error"})
    owner = Text()
