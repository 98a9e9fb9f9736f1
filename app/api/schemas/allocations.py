"""What comes in about allocations."""

from marshmallow import Schema, fields

from app.api.schemas.common import Document, Ident, Name, PageQuery, Text, Trait, Uuid, Words


class AllocationChange(Schema):
    """What may be changed of an allocation."""

    name = Name(allow_none=True)
    extra = Document()


class AllocationCreate(AllocationChange):
    """A request for a node, or what is known of one that has been given out already."""

    uuid = Uuid(allow_none=True)
    resource_class = Text(80, allow_none=True)
    traits = fields.List(Trait(), allow_none=True)
    candidate_nodes = fields.List(Ident(), allow_none=True)
    node = Ident(allow_none=True, metadata={"description": "A node that is in use already"})
    owner = Text(allow_none=True)


class AllocationFilters(PageQuery):
    """Which allocations to list."""

    fields_ = Words(data_key="fields", metadata={"description": "The fields to show"})
    node = Ident()
    resource_class = Text(80)
    state = Text(metadata={"description": "allocating, active, error"})
    owner = Text()
