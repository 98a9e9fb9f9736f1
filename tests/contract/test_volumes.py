"""Volume connectors and targets."""

from uuid import uuid4

import pytest

from app.hardware import targets
from app.models import Node
from drivers.core.target import VolumeConnector, VolumeTarget
from tests.contract.conftest import fault

CONNECTOR = {"type": "iqn", "connector_id": "iqn.2017-07.org.example:h1"}
TARGET = {"volume_type": "iscsi", "volume_id": "v-1", "boot_index": 0}
BODIES = {"connectors": CONNECTOR, "targets": TARGET}
SHORT = {
    "connectors": {"uuid", "node_uuid", "type", "connector_id", "links"},
    "targets": {"uuid", "node_uuid", "volume_type", "boot_index", "volume_id", "links"},
}
KINDS = list(BODIES)


@pytest.fixture
def node(api):
    created_node = api.node(name="n1")
    api.set(created_node["uuid"], power_state="power off")
    return created_node


def make(api, node, kind, **fields):
    body = {"node_uuid": node["uuid"], **BODIES[kind], **fields}
    return api("POST", f"/v1/volume/{kind}", body)


def replaced(path, value):
    return [{"op": "replace", "path": path, "value": value}]


@pytest.mark.parametrize("part", KINDS)
def test_one_is_made_shown_changed_and_forgotten(api, node, part):
    answer = make(api, node, part, extra={"a": 1})
    url = f"http://localhost/v1/volume/{part}/{answer.json['uuid']}"

    assert (201, url) == (answer.status_code, answer.headers["Location"])
    assert BODIES[part].items() <= answer.json.items()
    assert (node["uuid"], {"a": 1}, None) == (
        answer.json["node_uuid"],
        answer.json["extra"],
        answer.json["updated_at"],
    )
    assert answer.json == api("GET", url).json
    changed = api("PATCH", url, [{"op": "remove", "path": "/extra"}])
    assert (200, {}) == (changed.status_code, changed.json["extra"])
    assert changed.json["updated_at"]
    assert (204, 404) == (api("DELETE", url).status_code, api("GET", url).status_code)


@pytest.mark.parametrize("part", KINDS)
def test_lists_show_the_short_form_by_default(api, node, part):
    volume = make(api, node, part).json
    forms = {
        f"/v1/volume/{part}": SHORT[part],
        f"/v1/volume/{part}?node=n1": SHORT[part],
        f"/v1/nodes/n1/volume/{part}": SHORT[part],
        f"/v1/volume/{part}?detail=true": volume.keys(),
        f"/v1/volume/{part}?fields=extra": {"extra", "links"},
    }
    lists = {path: api("GET", path).json[part] for path in forms}

    assert forms == {path: items[0].keys() for path, items in lists.items()}
    other = api.node()["uuid"]
    assert [] == api("GET", f"/v1/nodes/{other}/volume/{part}").json[part]
    assert {part, "next"} == api("GET", f"/v1/volume/{part}?limit=1").json.keys()
    assert 400 == api("GET", f"/v1/volume/{part}?fields=extra&detail=true").status_code
    assert 404 == api("GET", f"/v1/volume/{part}?node=nonesuch").status_code
    assert 400 == api("GET", f"/v1/volume/{part}?sort_key=extra").status_code


@pytest.mark.parametrize("version", ["1.31", "1.32"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/volume"),
        ("GET", "/v1/volume/connectors"),
        ("GET", "/v1/volume/targets"),
        ("GET", "/v1/nodes/n1/volume"),
        ("GET", "/v1/nodes/n1/volume/connectors"),
        ("GET", "/v1/nodes/n1/volume/targets"),
        ("POST", "/v1/volume/connectors"),
        ("POST", "/v1/volume/targets"),
    ],
)
def test_volumes_exist_from_1_32(api, node, version, method, path):
    status = api.at(version)(method, path, {} if method == "POST" else None).status_code

    assert {"1.31": 404, "1.32": 400 if method == "POST" else 200}[version] == status
    assert (version == "1.32") == ("volume" in api.at(version)("GET", "/v1/nodes/n1").json)


@pytest.mark.parametrize(
    ("part", "fields"),
    [
        ("connectors", {"node_uuid": str(uuid4())}),
        ("connectors", {"node_uuid": "n1"}),
        ("connectors", {"type": None}),
        ("connectors", {"connector_id": None}),
        ("connectors", {"colour": "red"}),
        ("targets", {"boot_index": "0"}),
        ("targets", {"boot_index": 2**31}),
        ("targets", {"boot_index": None}),
        ("targets", {"volume_id": None}),
        ("targets", {"volume_type": 7}),
        ("targets", {"properties": [1]}),
        ("targets", {"uuid": "v"}),
    ],
)
def test_an_invalid_volume_is_refused(api, node, part, fields):
    assert 400 == make(api, node, part, **fields).status_code


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize(
    ("part", "field"),
    [("connectors", "connector_id"), ("connectors", "uuid"), ("targets", "boot_index")],
)
def test_unique_fields_of_volumes_are_enforced(api, node, part, field):
    volume = make(api, node, part).json
    fields = {field: volume[field]}
    if field == "uuid":
        fields["connector_id"] = "another"
    again = make(api, node, part, **fields)

    assert 409 == again.status_code
    message = {
        "boot_index": f"A volume target with boot index '{volume[field]}' for the same node",
        "uuid": f"A volume {part.removesuffix('s')} with UUID {volume[field]}",
    }.get(field, f"A volume {part.removesuffix('s')} with {field} {volume[field]}")
    message += " already exists."
    assert message == fault(again)["faultstring"]
    if part == "targets":  # unique within a node
        assert 201 == make(api, api.node(), part).status_code
        second = make(api, node, part, boot_index=1).json
        change = replaced("/boot_index", 0)
        assert 409 == api("PATCH", f"/v1/volume/targets/{second['uuid']}", change).status_code


@pytest.mark.parametrize("part", KINDS)
@pytest.mark.parametrize(
    ("power", "state", "changeable", "removable"),
    [
        ("power off", "active", True, True),
        ("power on", "active", False, False),
        (None, "available", False, False),
        ("power on", "manageable", False, True),
        ("power on", "enroll", False, True),
    ],
)
def test_the_volumes_of_a_node_that_is_on_are_not_changed(
    api, node, part, power, state, changeable, removable
):
    path = f"/v1/volume/{part}/{make(api, node, part).json['uuid']}"
    api.set(node["uuid"], power_state=power, provision_state=state)

    change = api("PATCH", path, replaced("/extra", {"a": 1}))
    assert (200 if changeable else 400) == change.status_code
    removal = api("DELETE", path)
    assert (204 if removable else 400) == removal.status_code
    for answer, action in ((change, "update"), (removal, "deletion")):
        if answer.status_code == 400:  # Ironic's tests match these words
            message = f'The requested action "volume {part.removesuffix("s")} {action}" can not be'
            assert fault(answer)["faultstring"].startswith(f"{message} performed on node ")


@pytest.mark.parametrize("part", KINDS)
@pytest.mark.parametrize("ordered", ["power on", "power off", None])
def test_a_machine_with_a_pending_power_order_does_not_count_as_off(api, node, part, ordered):
    """The recorded state is older than an order whose answer was lost."""
    path = f"/v1/volume/{part}/{make(api, node, part).json['uuid']}"
    pending = {"pending_power": {"state": ordered, "sweeps": 0}}
    api.set(node["uuid"], power_state="power off", driver_internal_info=pending)
    api.set(node["uuid"], provision_state="active")
    for answer in (
        api("PATCH", path, replaced("/extra", {"a": 1})), api("DELETE", path)
    ):  # fmt: skip
        assert 400 == answer.status_code
        assert "the outcome of its last power order is unknown" in fault(answer)["faultstring"]
    api.set(node["uuid"], driver_internal_info={})
    assert 200 == api("PATCH", path, replaced("/extra", {"a": 1})).status_code
    assert 204 == api("DELETE", path).status_code


@pytest.mark.parametrize("part", KINDS)
def test_changes(api, node, part):
    path = f"/v1/volume/{part}/{make(api, node, part).json['uuid']}"
    other = api.node()["uuid"]
    required = {"connectors": "connector_id", "targets": "volume_id"}[part]

    assert other == api("PATCH", path, replaced("/node_uuid", other)).json["node_uuid"]
    api.set(other, power_state="power off")
    assert 400 == api("PATCH", path, replaced("/node_uuid", str(uuid4()))).status_code
    assert 400 == api("PATCH", path, [{"op": "remove", "path": f"/{required}"}]).status_code
    assert 400 == api("PATCH", path, replaced("/uuid", str(uuid4()))).status_code
    assert 400 == api("PATCH", f"/v1/volume/{part}/by-name", []).status_code
    api.set(other, reservation="rack-1")
    assert 409 == api("PATCH", path, replaced("/extra", {})).status_code
    assert 409 == api("DELETE", path).status_code


def test_secrets_of_targets_are_not_shown(api, node):
    properties = {"auth_username": "u", "auth_password": "p", "target_lun": 1}
    target = make(api, node, "targets", properties=properties).json

    assert {**properties, "auth_password": "******"} == target["properties"]
    listed = api("GET", "/v1/volume/targets?fields=properties").json["targets"]
    assert [target["properties"]] == [entry["properties"] for entry in listed]


def test_links_refer_to_the_collections(api, node):
    base = "http://localhost/v1"
    for start in ("/volume", f"/nodes/{node['uuid']}/volume"):
        answer = api("GET", f"/v1{start}").json
        assert {"connectors", "targets", "links"} == answer.keys()
        assert f"{base}{start}/targets" == answer["targets"][0]["href"]
        assert f"{base}{start}/" == answer["links"][0]["href"]
    assert 404 == api("GET", "/v1/nodes/nonesuch/volume").status_code
    assert 400 == api("POST", "/v1/nodes/n1/volume/targets", {}).status_code
    assert 400 == api("GET", f"/v1/nodes/n1/volume/targets/{uuid4()}").status_code


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_volumes_are_deleted_with_their_node(api, node):
    uuid = make(api, node, "connectors").json["uuid"]
    make(api, node, "targets")

    assert 204 == api("DELETE", "/v1/nodes/n1").status_code
    assert 404 == api("GET", f"/v1/volume/connectors/{uuid}").status_code


@pytest.mark.parametrize(("storage", "uses_volumes"), [("fake", True), ("noop", False)])
def test_a_driver_gets_the_volumes_that_its_storage_interface_uses(
    api, node, storage, uses_volumes
):
    api.set(node["uuid"], storage_interface=storage)
    second_uuid = make(api, node, "targets", boot_index=1, volume_id="v-2").json["uuid"]
    first_uuid = make(api, node, "targets", properties={"auth_password": "p"}).json["uuid"]
    connector = make(api, node, "connectors").json["uuid"]
    with api.runtime.reading() as session:
        row = session.query(Node).one()
        target = targets.of_node(session, row)
        alone = targets.rarely_needed(api.runtime, row, None)

    expected = (
        (VolumeConnector(connector, "iqn", CONNECTOR["connector_id"]),),
        (
            VolumeTarget(first_uuid, "iscsi", "v-1", 0, {"auth_password": "p"}),
            VolumeTarget(second_uuid, "iscsi", "v-2", 1),
        ),
    )
    assert (expected if uses_volumes else ((), ())) == (
        target.volume_connectors,
        target.volume_targets,
    )
    assert (list(expected) if uses_volumes else []) == list(alone.values())
