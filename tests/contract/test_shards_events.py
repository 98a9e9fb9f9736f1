"""Shards, events, and the parts of a node."""

from uuid import uuid4

import pytest

EVENT = {
    "event": "network.bind_port",
    "port_id": str(uuid4()),
    "mac_address": "52:54:00:00:00:01",
    "status": "ACTIVE",
}


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_shards_are_counted_the_largest_first(api):
    for shard in ("s2", "s1", None, "s2", "s2", "s1", "s0"):
        api.node(shard=shard)

    assert {
        "shards": [
            {"name": "s2", "count": 3},
            {"name": "s1", "count": 2},
            {"name": "s0", "count": 1},
            {"name": None, "count": 1},
        ]
    } == api("GET", "/v1/shards").json


def test_shards_are_read_only(api):
    assert 404 == api.at("1.81")("GET", "/v1/shards").status_code
    assert 404 == api("GET", "/v1/shards/s1").status_code
    assert 400 == api("GET", "/v1/shards?limit=1").status_code


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, 204),
        ({"event": "network.delete_port", "device_id": None, "binding:vnic_type": "normal"}, 204),
        ({"binding:host_id": str(uuid4())}, 204),
        ({"event": "network.explode"}, 400),
        ({"event": None}, 400),
        ({"mac_address": "x"}, 400),
        ({"port_id": "x"}, 400),
        ({"status": None}, 400),
        ({"colour": "red"}, 400),
    ],
)
def test_events_are_validated_and_accepted(api, change, status):
    events = [{**EVENT, **change}]

    assert status == api("POST", "/v1/events", {"events": events}).status_code


def test_events_exist_from_1_54(api):
    assert 404 == api.at("1.53")("POST", "/v1/events", {"events": [EVENT]}).status_code
    assert 400 == api("POST", "/v1/events", {"events": []}).status_code
    assert 400 == api("POST", "/v1/events", {}).status_code


def test_a_node_links_to_its_parts(api):
    parent = api.node(name="n1")
    parts = [api.node(parent_node=parent["uuid"])["uuid"] for _ in range(2)]

    answer = api("GET", "/v1/nodes/n1/children").json
    link = f"http://localhost/v1/nodes?parent_node={parent['uuid']}"
    assert {"children": parts, "links": {"href": link, "rel": "children"}} == answer
    assert [] == api("GET", f"/v1/nodes/{parts[0]}/children").json["children"]
    assert 404 == api.at("1.82")("GET", "/v1/nodes/n1/children").status_code
    assert 404 == api("GET", "/v1/nodes/nonesuch/children").status_code
