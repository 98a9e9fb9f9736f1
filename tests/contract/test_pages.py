"""A page of nodes, which is rendered by columns, equals the nodes shown one by one."""

from datetime import datetime

import pytest

from app.cluster import conductors
from app.cluster.hash_ring import owner
from app.models import AgentRecord, Conductor, Node, NodeTrait, Operation, OperationStep

WHEN = datetime(2026, 1, 2, 3, 4, 5, 600)
#: Each node differs from its neighbours.
NODES = (
    {},
    {"provision_state": "cleaning", "extra": {"a": 'b"c'}, "provision_updated_at": WHEN},
    {"instance_uuid": "5d1d8a1c-7d94-4a5e-a6b5-6f0ae4c2fb51", "last_error": 'It "broke".'},
    {"maintenance": True, "secure_boot": False, "raid_config": {"disks": [1]}},
    {"provision_state": "clean wait", "driver_info": {"x_password": "p", "in": {"token": 1}}},
    {"owner": "o", "protected": True, "inspection_finished_at": WHEN, "driver_internal_info": {"a": 1}},
)  # fmt: skip


@pytest.fixture
def nodes(api):
    """UUIDs of these nodes; every second one has rows in other tables."""
    created_nodes = [api.node(**fields) for fields in NODES]
    for number, node in enumerate(created_nodes):
        with api.runtime.transaction() as session:
            key = session.query(Node).filter_by(uuid=node["uuid"]).one().id
            if number % 2:
                session.add(NodeTrait(node_id=key, trait=f"CUSTOM_{number}"))
                session.add(AgentRecord(node_id=key, url=f"http://{number}", token="t",
                                        last_heartbeat_at=WHEN))  # fmt: skip
            if "clean" in NODES[number].get("provision_state", ""):
                work = Operation(node_id=key, uuid=f"{number}", kind="clean",
                                 state="running", created_at=WHEN)  # fmt: skip
                session.add(work)
                session.flush()
                session.add(OperationStep(operation_id=work.id, position=0, interface="deploy",
                                          name=f"step-{number}", source="driver", flow="clean"))  # fmt: skip
    return [node["uuid"] for node in created_nodes]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("version", ["1.115", "1.30"])
def test_a_node_is_shown_alike_in_a_page_and_alone(api, nodes, version):
    asking = api.at(version)
    alone = [asking("GET", f"/v1/nodes/{uuid}").json for uuid in nodes]
    assert alone == asking("GET", "/v1/nodes/detail").json["nodes"]
    assert ["", "step-1", "", "", "step-4", ""] == [
        node["clean_step"].get("step", "") for node in alone
    ]
    assert [None, "http://1", None, "http://3", None, "http://5"] == [
        node["driver_internal_info"].get("agent_url") for node in alone
    ]
    assert {"x_password": "******", "in": {"token": "******"}} == alone[4]["driver_info"]
    assert ("2026-01-02T03:04:05.000600+00:00", None) == (
        alone[1]["provision_updated_at"],
        alone[2]["provision_updated_at"],
    )


def test_a_page_of_the_nodes_of_a_conductor_has_no_others(api, nodes):
    with api.runtime.transaction() as session:
        conductor = session.query(Conductor).one()
        session.add(Conductor(hostname="rack-2", incarnation="2", interfaces=conductor.interfaces))
    api.runtime.cache.clear()
    members = conductors.members(api.runtime)
    for name in ("rack-1", "rack-2", "rack-3"):
        theirs = [uuid for uuid in nodes if owner(uuid, "fake-hardware", "", members).name == name]
        page = api("GET", f"/v1/nodes?conductor={name}&fields=uuid,conductor,clean_step").json
        assert theirs == [node["uuid"] for node in page["nodes"]]
        assert {name} >= {node["conductor"] for node in page["nodes"]}
