"""Comparison of rows with the rows that belong to them."""

from app.models import Node, NodeTrait, Port
from workers.moving.bundles import Bundle, differences


def bundle(ports=(), traits=(), **values):
    return Bundle(Node, {"name": "n", "created_at": 1, **values}, {Port: ports, NodeTrait: traits})


def test_ids_times_and_order_of_parts_make_no_difference():
    ports = [{"id": 1, "uuid": "a", "created_at": 1}, {"id": 2, "uuid": "b", "created_at": 1}]
    other_ports = [{"id": 9, "uuid": "b", "created_at": 2}, {"id": 8, "uuid": "a", "created_at": 3}]
    assert [] == differences(bundle(ports), bundle(other_ports, created_at=2))


def test_differing_fields_and_kinds_of_parts_are_named():
    ours, theirs = bundle([{"uuid": "a"}], name="m"), bundle([{"uuid": "b"}], [{"trait": "T"}])
    assert ["name", "port", "node trait"] == differences(ours, theirs)
