"""Sanitation reports over the API: pages, deleted nodes, the policy, and the command."""

from uuid import uuid4

import orjson
import pytest

from app.db.clock import moment
from app.models import SanitationReport
from tests.support.inside_commands import Ingot

from .conftest import fault


def add(api, node_uuid, *results, **columns):
    """Insert reports; return their UUIDs, the newest first."""
    uuids = []
    with api.runtime.transaction() as session:
        for result in results:
            uuids.append(str(uuid4()))
            session.add(
                SanitationReport(
                    uuid=uuids[-1], node_uuid=node_uuid, operation_uuid=str(uuid4()),
                    created_at=moment(session), result=result,
                    report=orjson.dumps({"result": result}).decode(), **columns,
                )
            )  # fmt: skip
            session.flush()
    return uuids[::-1]


def listed(answer):
    assert 200 == answer.status_code, answer.text
    return [item["uuid"] for item in answer.json["sanitation"]]


def test_reports_are_listed_newest_first_in_pages(api):
    node, other = api.node(name="n1"), api.node()
    uuids = add(api, node["uuid"], "unknown", "not sanitized", "sanitized")
    add(api, other["uuid"], "unknown")
    assert uuids == listed(api("GET", "/v1/nodes/n1/sanitation"))
    page = api("GET", f"/v1/nodes/{node['uuid'].upper()}/sanitation?limit=2")
    assert uuids[:2] == listed(page)
    assert uuids[2:] == listed(api("GET", page.json["next"].partition("http://localhost")[2]))
    assert uuids[::-1] == listed(api("GET", "/v1/nodes/n1/sanitation?sort_dir=asc"))
    (item,) = api("GET", f"/v1/nodes/{other['uuid']}/sanitation").json["sanitation"]
    assert (None, {"result": "unknown"}) == (item["signature"], item["report"])


def test_a_signature_is_shown_with_its_key(api):
    node = api.node()
    add(api, node["uuid"], "sanitized", signature="c2ln", public_key="a2V5")
    (item,) = api("GET", f"/v1/nodes/{node['uuid']}/sanitation").json["sanitation"]
    assert {"algorithm": "Ed25519", "public_key": "a2V5", "value": "c2ln"} == item["signature"]


def test_reports_of_a_deleted_node_are_found_by_its_uuid_alone(api):
    node = api.node(name="n1")
    uuids = add(api, node["uuid"], "sanitized")
    assert 204 == api("DELETE", f"/v1/nodes/{node['uuid']}").status_code
    assert uuids == listed(api("GET", f"/v1/nodes/{node['uuid']}/sanitation"))
    for ident in ("n1", str(uuid4())):
        assert 404 == api("GET", f"/v1/nodes/{ident}/sanitation").status_code


def test_a_marker_of_another_node_is_refused(api):
    node, other = api.node(), api.node()
    (marker,) = add(api, other["uuid"], "sanitized")
    answer = api("GET", f"/v1/nodes/{node['uuid']}/sanitation?marker={marker}")
    assert 404 == answer.status_code
    assert marker in fault(answer)["faultstring"]


@pytest.mark.parametrize("query", ["limit=0", "marker=x", "sort_key=report", "fields=uuid"])
def test_a_wrong_query_is_refused(api, query):
    node = api.node()
    answer = api("GET", f"/v1/nodes/{node['uuid']}/sanitation?{query}")
    assert 400 == answer.status_code
    assert query.partition("=")[0] in fault(answer)["faultstring"].lower()


def test_the_newest_reports_of_many_nodes_are_written_to_files(api, tmp_path):
    ingot, folder = Ingot(api.client.application), tmp_path / "proofs"
    for name in ("n1", "n2"):
        add(api, api.node(name=name)["uuid"], "unknown", "sanitized")
    api.node(name="n3")
    words = ("sanitation", "export", "--where", "name=n*", "--folder", folder)
    result = ingot(*words, status=1)
    lines = {f"{folder}/n1.json: sanitized", f"{folder}/n2.json: sanitized"}
    assert lines == {*result.out.splitlines()}
    assert "n3: n3 has no sanitation report" == result.err.splitlines()[0]
    for name in ("n1", "n2"):
        assert "sanitized" == orjson.loads((folder / f"{name}.json").read_bytes())["result"]
    again = ingot("sanitation", "export", "n1", "n2", "--folder", folder, status=1)
    assert f"n1: {folder}/n1.json exists" in again.err.splitlines()[0]
