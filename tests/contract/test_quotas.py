"""/v1/quotas: limits of leased nodes, and the requests that they refuse."""

import json

import pytest
from sqlalchemy import select

from app.inventory import scheduling
from app.models import Allocation, AuditRecord, Node, Project
from tests.contract.conftest import fault
from tests.support.inside_commands import Ingot

BLUE = "blue-project"


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request):
    return request.param


def limit(api, node_limit, project=BLUE):
    answer = api("POST", "/v1/quotas", {"project": project, "node_limit": node_limit})
    assert 201 == answer.status_code, answer.text
    return answer.json


def patch(api, path, **fields):
    return api(
        "PATCH", path, [{"op": "add", "path": f"/{name}", "value": fields[name]} for name in fields]
    )


def lend(api, node, project=BLUE):
    return patch(api, f"/v1/nodes/{node['uuid']}", lessee=project)


def quota_of(api, project=BLUE):
    (item,) = api("GET", f"/v1/quotas?project={project}").json["quotas"]
    return item["node_limit"], item["leased_nodes"]


def test_a_quota_is_created_shown_listed_changed_and_deleted(api):
    created = limit(api, 1)
    path = f"/v1/quotas/{created['uuid']}"
    assert (BLUE, 1, 0, None) == tuple(
        created[name] for name in ("project", "node_limit", "leased_nodes", "updated_at")
    )
    assert created == api("GET", path).json
    limit(api, 7, "red-project")
    assert 2 == len(api("GET", "/v1/quotas").json["quotas"])
    assert 409 == api("POST", "/v1/quotas", {"project": BLUE, "node_limit": 2}).status_code
    assert 200 == lend(api, api.node()).status_code
    assert (1, 1) == quota_of(api)
    assert 2 == patch(api, path, node_limit=2).json["node_limit"]
    assert 204 == api("DELETE", path).status_code
    assert 404 == api("GET", path).status_code
    assert [] == api("GET", f"/v1/quotas?project={BLUE}").json["quotas"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"node_limit": -1}, "-1 is less than the minimum of 0 (node_limit)"),
        ({"node_limit": 2**31}, "2147483648 is greater than the maximum of 2147483647 (node_limit)"),
        ({"node_limit": 1.5}, "node_limit"), ({"node_limit": None}, "node_limit"),
        ({"node_limit": "many"}, "node_limit"), ({"project": ""}, "project"),
        ({"project": "p" * 256}, "project"), ({"project": None}, "project"),
        ({"project": "a\0b"}, "project"), ({"project": 7}, "project"), ({"nodes": 7}, "nodes"),
    ],
)  # fmt: skip
def test_a_wrong_quota_is_refused(api, fields, words):
    answer = api("POST", "/v1/quotas", {"project": BLUE, "node_limit": 1} | fields)
    assert 400 == answer.status_code
    assert words in fault(answer)["faultstring"]
    assert [] == api("GET", "/v1/quotas").json["quotas"]


def test_the_project_and_the_limit_of_a_quota_stay_what_they_are(api):
    path = f"/v1/quotas/{limit(api, 1)['uuid']}"
    assert 400 == patch(api, path, project="red-project").status_code
    assert 400 == api("PATCH", path, [{"op": "remove", "path": "/node_limit"}]).status_code
    assert 400 == patch(api, path, node_limit=-1).status_code
    assert (1, 0) == quota_of(api)


def test_the_name_of_a_local_project_is_no_identifier(api):
    with api.runtime.transaction() as session:
        session.add(Project(ident="b1ue", name="blue"))
        session.add(Project(ident="green", name="other"))
        session.add(Project(ident="other", name="green"))
    answer = api("POST", "/v1/quotas", {"project": "blue", "node_limit": 1})
    assert 400 == answer.status_code
    assert "project: blue is the name of project b1ue" in fault(answer)["faultstring"]
    for project in ("b1ue", "green", "other", "of-keystone"):
        limit(api, 1, project)


def test_requests_beyond_the_limit_are_refused_with_project_limit_and_use(api):
    limit(api, 1)
    assert 200 == lend(api, api.node()).status_code
    node = api.node(instance_info={"project_id": BLUE}, provision_state="available")
    fields = {"driver": "fake-hardware", "lessee": BLUE}
    deploy = {"target": "active"}
    requests = [
        lend(api, node),
        api("POST", "/v1/nodes", fields),
        api("POST", "/v1/nodes?dry_run=true", fields),
        api("PUT", f"/v1/nodes/{node['uuid']}/states/provision", deploy),
    ]
    for answer in requests:
        assert (403, "Client") == (answer.status_code, fault(answer)["faultcode"])
        assert (
            f"lessee: the quota of project {BLUE} allows no further node: it leases 1, its limit"
            " is 1." in fault(answer)["faultstring"]
        )
    path = f"/v1/nodes/{node['uuid']}/states/provision?dry_run=true"
    foreseen = api("PUT", path, deploy).json
    assert (False, 403) == (foreseen["accepted"], foreseen["refused"][0]["status"])
    assert foreseen["refused"][0]["reason"] == fault(requests[-1])["faultstring"]
    assert (1, 1) == quota_of(api)


def test_a_rollout_names_the_quota_of_the_nodes_that_it_excludes(api):
    limit(api, 0)
    api.node(name="n1", instance_info={"project_id": BLUE}, provision_state="available")
    body = {"target": "active", "nodes": {"names": ["n1"]}, "dry_run": True}
    answer = api("POST", "/v1/rollouts", body)
    (excluded,) = answer.json["excluded_nodes"]
    assert "the quota of project blue-project allows no further node" in excluded["reason"]


def test_an_allocation_takes_no_node_that_the_project_does_not_lease_or_own(api):
    """So neither a search nor a backfill leases a further node."""
    limit(api, 1)
    usable = {"resource_class": "large", "power_state": "power off"}
    leased = api.node(name="leased", lessee=BLUE, provision_state="available", **usable)
    api.node(name="pool", provision_state="available", **usable)
    api.node(name="in-use", provision_state="active", **usable)
    body = {"resource_class": "large", "owner": BLUE}
    for name, candidates in (("first", []), ("second", []), ("third", ["pool"])):
        fields = body | {"name": name, "candidate_nodes": candidates}
        assert 201 == api("POST", "/v1/allocations", fields).status_code
    assert 201 == api("POST", "/v1/allocations", body | {"node": "in-use"}).status_code
    with api.runtime.reading() as session:
        uuids = session.scalars(select(Allocation.uuid).order_by(Allocation.id)).all()
    for uuid in uuids:
        scheduling.allocate(api.runtime, uuid)
    with api.runtime.reading() as session:
        states = session.scalars(select(Allocation.state).order_by(Allocation.id)).all()
        lessees = dict(session.execute(select(Node.name, Node.lessee)).all())
    assert ["active", "error", "error", "active"] == states
    assert {"leased": BLUE, "pool": None, "in-use": None} == lessees
    assert (1, 1) == quota_of(api)
    assert leased["uuid"] == api("GET", "/v1/allocations/first").json["node_uuid"]


def test_changes_of_quotas_are_audited(api):
    uuid = limit(api, 1)["uuid"]
    patch(api, f"/v1/quotas/{uuid}", node_limit=2)
    api("DELETE", f"/v1/quotas/{uuid}")
    with api.runtime.reading() as session:
        records = session.execute(
            select(AuditRecord.action, AuditRecord.outcome).order_by(AuditRecord.id)
        ).all()
    assert [
        ("create/quota", "success"), ("update/quota", "success"), ("delete/quota", "success"),
    ] == [tuple(record) for record in records]  # fmt: skip


def test_the_commands(api):
    ingot = Ingot(api.client.application)
    assert "2 nodes; it leases 0" in ingot("quota", "set", BLUE, "2", "-o", "table").out
    lend(api, api.node())
    assert "1 node; it leases 1" in ingot("quota", "set", BLUE, "1", "-o", "table").out
    (item,) = json.loads(ingot("quota", "list", "--project", BLUE, "-o", "json").out)
    assert (BLUE, 1, 1) == (item["project"], item["node_limit"], item["leased_nodes"])
    refused = ingot("node", "create", "--driver", "fake-hardware", "--lessee", BLUE, status=1)
    assert "it leases 1, its limit is 1" in refused.err
    ingot("quota", "unset", BLUE)
    assert f"there is no quota of project {BLUE}" in ingot("quota", "unset", BLUE, status=1).err
