"""The first microversion of each resource, through the clients."""

import json
import uuid

import pytest

STEP = {"interface": "bios", "step": "factory_reset", "args": {}}
TEMPLATE = json.dumps([{**STEP, "priority": 1}])
RUNBOOK = json.dumps([{**STEP, "order": 1}])
RULE = json.dumps([{"op": "log", "args": {"msg": "hello", "level": "info"}}])
NEWEST = 115

#: command -> its first minor version; {node} and {uuid} are replaced
COMMANDS = {
    "node trait list {node}": 37,
    "node add trait {node} CUSTOM_A": 37,
    "node bios setting list {node}": 40,
    "node set {node} --owner me": 50,
    "node set {node} --description text": 51,
    "node set {node} --retired": 61,
    "node set {node} --lessee me": 65,
    "node set {node} --shard s": 82,
    "node set {node} --instance-name i": 104,
    "node history list {node}": 78,
    "node children list {node}": 83,
    "node firmware list {node}": 86,
    "node boot mode set {node} uefi": 76,
    "node secure boot off {node}": 76,
    "node inject nmi {node}": 29,
    "node vif list {node}": 28,
    "node vif attach {node} v": 28,
    "node power off {node} --soft": 27,
    "node set {node} --disable-power-off": 95,
    "node list --owner me": 50,
    "node list --conductor fleet-1": 49,
    "node list --sharded": 82,
    "port group list": 23,
    "port group create --node {uuid}": 23,
    "port list --port-group 00000000-0000-0000-0000-000000000000": 24,
    "volume connector list": 32,
    "volume target list": 32,
    "volume target create --node {uuid} --type rbd --boot-index 1 --volume-id {new}": 32,
    "volume connector create --node {uuid} --type mac --connector-id {new}": 32,
    "conductor list": 49,
    "conductor show fleet-1": 49,
    "allocation list": 52,
    "allocation create --resource-class none --name a{new}": 52,
    "deploy template list": 55,
    "deploy template create CUSTOM_{NEW} --steps {template}": 55,
    "shard list": 82,
    "runbook list": 92,
    "runbook create --name CUSTOM_{NEW} --steps {runbook}": 92,
    "inspection rule list": 96,
    "inspection rule create --actions {rule} --conditions [] --priority 1": 96,
}
#: path -> first minor version in which the SDK can read it
PATHS = {
    "/chassis": 1,
    "/nodes": 1,
    "/ports": 1,
    "/drivers": 1,
    "/drivers/fake-hardware/raid/logical_disk_properties": 12,
    "/portgroups": 23,
    "/nodes/{node}/portgroups": 24,
    "/nodes/{node}/vifs": 28,
    "/volume/connectors": 32,
    "/volume/targets": 32,
    "/nodes/{node}/volume/targets": 32,
    "/nodes/{node}/traits": 37,
    "/nodes/{node}/bios": 40,
    "/conductors": 49,
    "/allocations": 52,
    "/deploy_templates": 55,
    "/nodes/{node}/history": 78,
    "/shards": 82,
    "/nodes/{node}/children": 83,
    "/nodes/{node}/firmware": 86,
    "/runbooks": 92,
    "/nodes/{node}/vmedia": 93,
    "/inspection_rules": 96,
}


@pytest.fixture
def filled(baremetal, node):
    """Replace the placeholders of a command."""
    identity = baremetal("node", "show", node)["uuid"]
    baremetal("node", "manage", node, "--wait", 30)

    def fill(text):
        new = uuid.uuid4().hex
        values = {
            "node": node, "uuid": identity, "new": new, "NEW": new.upper(),
            "template": TEMPLATE, "runbook": RUNBOOK, "rule": RULE,
        }  # fmt: skip
        return [word.format(**values) if "{" in word else word for word in text.split()]

    return fill


def test_commands_work_from_their_first_version(baremetal, filled):
    for text, minor in COMMANDS.items():
        words = filled(text)
        errors = baremetal.at(f"1.{minor - 1}").refused(*words)
        assert any(word in errors for word in ("404", "405", "406", "version")), (text, errors)
        if "--port-group" in words:  # the group does not exist
            assert "404" in baremetal.at(f"1.{minor}").refused(*words)
        else:
            resource = baremetal.at(f"1.{minor}")(*words)
            if "create" in words and "--node" not in words:
                baremetal(*words[: words.index("create")], "delete", resource["uuid"])


def test_paths_exist_from_their_first_version(cloud, filled):
    for text, minor in PATHS.items():
        (path,) = filled(text)
        for version in sorted({1, minor - 1, minor, NEWEST} - {0}):
            status = cloud.get(path, microversion=f"1.{version}").status_code
            assert (version >= minor) == (200 == status), (path, version, status)
            assert status in (200, 404, 406), (path, version)


@pytest.mark.parametrize("version", ["1.116", "2.1"])
def test_an_unknown_version_is_refused(cloud, version):
    answer = cloud.get("/nodes", microversion=version)
    assert 406 == answer.status_code
    assert "1.115" == answer.headers["X-OpenStack-Ironic-API-Maximum-Version"]


def test_the_client_negotiates_the_newest_version_of_both_sides(baremetal, node):
    assert "health" in baremetal("node", "show", node)  # a field of 1.109
    assert "health" not in baremetal.at("1.108")("node", "show", node)
