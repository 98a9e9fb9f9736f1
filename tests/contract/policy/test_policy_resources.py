"""Who may do what with what belongs to nodes, to projects, and to the whole system."""

import pytest

from app.inventory.nodes import find
from app.models import Allocation, Portgroup, Runbook, VolumeConnector, VolumeTarget

from .conftest import (
    OPERATE,
    OTHER,
    OWNER,
    PEOPLE,
    SEE,
    SET_UP,
    SYSTEM_ADMIN,
    SYSTEM_WORK,
    WIRE,
    filled,
    people,
)

MANAGE = people("system-member", "owner-manager", "lessee-manager", "svc")
SYSTEM_READ = people("system-reader") | {"system-service"}
EXTRA = [{"op": "add", "path": "/extra/a", "value": 1}]
STEPS = [{"interface": "deploy", "step": "erase_devices", "args": {}, "order": 1}]


def uuid(number):
    return f"{number:08d}-1111-4111-8111-111111111111"


@pytest.fixture
def things(guarded):
    """
    name -> UUID, of what there is besides the node: parts of it, and things of the owner's project
    or of nobody's.
    """
    parts = {
        "portgroup": lambda node: Portgroup(node_id=node, mode="active-backup"),
        "connector": lambda node: VolumeConnector(node_id=node, type="iqn", connector_id=str(node)),
        "target": lambda node: VolumeTarget(
            node_id=node, volume_type="iscsi", volume_id="v", boot_index=0, properties={"p": "here"}
        ),
        "allocation": lambda node: Allocation(
            node_id=node, resource_class="c", owner=OWNER if node == own else None, state="active"
        ),
        "runbook": lambda node: Runbook(
            name=f"CUSTOM_{node}", owner=OWNER if node == own else None, steps=STEPS
        ),
    }
    found = {}
    with guarded.api.runtime.transaction() as session:
        own, foreign = (find(session, node).id for node in (guarded.node, guarded.foreign))
        for number, (name, make) in enumerate(parts.items()):
            for prefix, node in (("", own), ("foreign_", foreign)):
                row = make(node)
                row.uuid = found[prefix + name] = uuid(10 * number + len(prefix))
                session.add(row)
        session.add(Runbook(uuid=uuid(99), name="CUSTOM_ALL", public=True, steps=STEPS))
    return found | {"public_runbook": uuid(99), "node": guarded.node, "foreign": guarded.foreign}


ALLOCATION_READ = people("system-reader", "owner-reader") | {"system-service"}
ALLOCATION_WORK = people("system-member", "owner-member")
SERVICES = {who for who in PEOPLE if who.endswith("-service")} | {"service-project"}
RUNBOOK_READ = people("system-reader", "owner-reader") | SERVICES
RUNBOOK_WORK = people("system-member", "owner-manager") | SERVICES

#: (method, path, body), who may, and who may not but sees that it is there.
ON_THINGS = [
    (("GET", "/v1/portgroups/{portgroup}"), SEE, SEE),
    (("PATCH", "/v1/portgroups/{portgroup}", EXTRA), SET_UP, SEE),
    (("DELETE", "/v1/portgroups/{portgroup}"), WIRE, SEE),
    (("GET", "/v1/portgroups/{portgroup}/ports"), SEE, SEE),
    (("GET", "/v1/nodes/{node}/portgroups"), SEE, SEE),
    (("GET", "/v1/volume/connectors/{connector}"), SEE, SEE),
    (("PATCH", "/v1/volume/connectors/{connector}", EXTRA), OPERATE, SEE),
    (("DELETE", "/v1/volume/connectors/{connector}"), MANAGE, SEE),
    (("GET", "/v1/volume/targets/{target}"), SEE, SEE),
    (("PATCH", "/v1/volume/targets/{target}", EXTRA), OPERATE, SEE),
    (("DELETE", "/v1/volume/targets/{target}"), MANAGE, SEE),
    (("GET", "/v1/nodes/{node}/volume/targets"), SEE, SEE),
    (("GET", "/v1/allocations/{allocation}"), ALLOCATION_READ, ALLOCATION_READ),
    (("PATCH", "/v1/allocations/{allocation}", EXTRA), ALLOCATION_WORK, ALLOCATION_READ),
    (("GET", "/v1/nodes/{node}/allocation"), ALLOCATION_READ, SEE),
    (("DELETE", "/v1/allocations/{allocation}"), ALLOCATION_WORK, ALLOCATION_READ),
    (("GET", "/v1/runbooks/{runbook}"), RUNBOOK_READ, RUNBOOK_READ),
    (("GET", "/v1/runbooks/{public_runbook}"), set(PEOPLE), set()),
    (("PATCH", "/v1/runbooks/{public_runbook}", EXTRA),
     people("system-member") | SERVICES, set(PEOPLE)),
    (("PATCH", "/v1/runbooks/{runbook}", EXTRA), RUNBOOK_WORK, RUNBOOK_READ),
    (("PATCH", "/v1/runbooks/{runbook}", [{"op": "replace", "path": "/owner", "value": OTHER}]),
     SYSTEM_WORK, RUNBOOK_READ),
    (("PATCH", "/v1/runbooks/{runbook}", [{"op": "replace", "path": "/public", "value": True}]),
     SYSTEM_WORK, RUNBOOK_READ),
    (("DELETE", "/v1/runbooks/{runbook}"), RUNBOOK_WORK, RUNBOOK_READ),
]  # fmt: skip


@pytest.mark.parametrize(("request_", "allowed", "seen"), ON_THINGS)
def test_who_may_do_what_with_things(guarded, things, request_, allowed, seen):
    for who in sorted(PEOPLE, key=lambda who: who in allowed):  # those who may come last
        method, path, *body = filled(list(request_), **things)
        status = guarded.ask(who, method, path, *body).status_code

        if who in allowed:
            assert status not in (401, 403), who
            assert status != 404 or method == "DELETE", who
        elif who in seen or who == "domain-admin":
            assert 403 == status, who
        else:
            assert 404 == status, who


#: What is made, or is about the whole system.
ELSEWHERE = [
    (("POST", "/v1/portgroups", {"node_uuid": "{node}"}), WIRE),
    (("POST", "/v1/volume/connectors",
      {"node_uuid": "{node}", "type": "ip", "connector_id": "x"}), MANAGE),
    (("POST", "/v1/volume/targets",
      {"node_uuid": "{node}", "volume_type": "i", "volume_id": "x", "boot_index": 1}), MANAGE),
    (("POST", "/v1/allocations", {"resource_class": "large"}),
     {who for who in PEOPLE if who.endswith(("-admin", "-manager", "-member"))} - {"domain-admin"}),
    (("POST", "/v1/runbooks", {"name": "CUSTOM_NEW", "steps": STEPS}),
     {who for who in PEOPLE if who.endswith(("-admin", "-manager"))} - {"domain-admin"} | SERVICES
     | {"system-member"}),
    (("GET", "/v1/operations"), SYSTEM_READ),
    (("GET", "/v1/shards"), SYSTEM_READ),
    (("GET", "/v1/chassis"), SYSTEM_READ),
    (("POST", "/v1/chassis", {}), SYSTEM_ADMIN),
    (("GET", "/v1/deploy_templates"), SYSTEM_READ),
    (("POST", "/v1/deploy_templates", {}), SYSTEM_ADMIN),
    (("POST", "/v1/events", {}), SYSTEM_ADMIN),
    (("GET", "/v1/volume"), set(PEOPLE)),
]  # fmt: skip


@pytest.mark.parametrize(("request_", "allowed"), ELSEWHERE)
def test_who_may_do_what_elsewhere(guarded, request_, allowed):
    for who in PEOPLE:
        method, path, *body = filled(list(request_), node=guarded.node)

        assert (who in allowed) == (guarded.ask(who, method, path, *body).status_code != 403), who


@pytest.mark.parametrize(
    ("who", "sees"),
    [
        ("system-reader", {"", "foreign_", "public_"}),
        ("owner-reader", {"", "public_"}),
        ("lessee-reader", {"", "public_"}),
        ("other-admin", {"public_"}),
    ],
)
@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("portgroups", "portgroup"),
        ("volume/connectors", "connector"),
        ("volume/targets", "target"),
        ("allocations", "allocation"),
        ("runbooks", "runbook"),
    ],
)
def test_lists_have_what_the_callers_project_has(guarded, things, who, sees, path, name):
    if who == "lessee-reader" and name in ("allocation", "runbook"):
        sees = {"public_"}  # to lease a node is not to own what its owner has
    expected = {things[prefix + name] for prefix in sees if prefix + name in things}

    listed = guarded.ask(who, "GET", f"/v1/{path}").json[path.rpartition("/")[2]]
    assert expected == {each["uuid"] for each in listed}


@pytest.mark.parametrize(
    ("who", "shown"),
    [("system-reader", True), ("owner-admin", True), ("owner-manager", False), ("lessee-admin", True)],
)  # fmt: skip
def test_properties_of_a_volume_are_for_admins(guarded, things, who, shown):
    for path in ("/v1/volume/targets/{target}", "/v1/volume/targets?detail=true"):
        assert shown == ('"here"' in guarded.ask(who, "GET", path.format(**things)).text)


def test_what_a_project_makes_is_its_own(guarded):
    def make(who, path, **fields):
        fields = (
            {"resource_class": "c"} | fields if path == "allocations" else {"steps": STEPS} | fields
        )
        return guarded.ask(who, "POST", f"/v1/{path}", fields)

    assert OWNER == make("owner-member", "allocations").json["owner"]
    assert 403 == make("owner-member", "allocations", owner=OTHER).status_code
    assert OTHER == make("system-member", "allocations", owner=OTHER).json["owner"]
    assert OWNER == make("owner-manager", "runbooks", name="CUSTOM_1").json["owner"]
    assert 400 == make("owner-manager", "runbooks", name="CUSTOM_2", owner=OTHER).status_code
    assert 400 == make("owner-manager", "runbooks", name="CUSTOM_3", public=True).status_code
    assert make("system-member", "runbooks", name="CUSTOM_4", public=True).json["public"]


def test_an_allocation_names_no_node_that_its_caller_does_not_see(guarded):
    for fields in ({"candidate_nodes": [guarded.node, guarded.foreign]}, {"node": guarded.foreign}):
        body = {"resource_class": "c", **fields}
        assert 400 == guarded.ask("owner-member", "POST", "/v1/allocations", body).status_code
    body = {"resource_class": "c", "candidate_nodes": [guarded.node]}
    assert 201 == guarded.ask("owner-member", "POST", "/v1/allocations", body).status_code


def test_a_runbook_is_run_by_those_who_may_use_it(guarded, things):
    def run(who, runbook):
        body = {"target": "clean", "runbook": things[runbook]}
        path = f"/v1/nodes/{guarded.node}/states/provision"
        return guarded.ask(who, "PUT", path, body).status_code

    assert 404 == run("lessee-manager", "runbook")
    assert 403 == run("owner-member", "runbook")
    assert run("owner-manager", "runbook") not in (403, 404)
    assert run("lessee-manager", "public_runbook") not in (403, 404)
