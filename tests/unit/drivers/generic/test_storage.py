"""Storage interface cinder: attachments of a volume service."""

from dataclasses import replace

import pytest

from drivers.core.errors import (
    InvalidDriverInfo,
    LeaseLost,
    NotFound,
    Refused,
    Unexpected,
    Unreachable,
)  # fmt: skip
from drivers.core.target import VolumeConnector, VolumeTarget
from tests.support import keystone, volume_service
from tests.unit.drivers.machines import target, with_option

IQN = VolumeConnector("c-1", "iqn", "iqn.2026-11.org.example:machine")
ROOT, DATA = VolumeTarget("t-1", "iscsi", "v-1", 0), VolumeTarget("t-2", "iscsi", "v-2", 1)
FIBRE = tuple(
    VolumeConnector(f"w-{at}", kind, f"20:0{at}")
    for at, kind in enumerate(("wwpn", "wwnn", "wwpn", "mac"))
)


@pytest.fixture
def volumes():
    with volume_service.serving("v-1", "v-2") as service:
        yield service


def machine(volumes, connectors=(IQN,), targets=(ROOT, DATA), **options):
    settings = {
        "auth_type": "none",
        "endpoint_override": volumes.url,
        "connect_retries": 0,
        **options,
    }
    return target(
        interfaces={"storage": "cinder", "boot": "ipxe", "deploy": "direct"},
        options=with_option("cinder", **settings),
        volume_connectors=connectors,
        volume_targets=targets,
    )


def test_volumes_are_attached_and_their_connection_is_recorded(volumes):
    it = machine(volumes)
    storage = it.driver.storage
    storage.validate(it)
    storage.attach_volumes(it)
    (root,) = volumes.of("v-1")
    assert (it.uuid, "attached") == (root["instance"], root["status"])
    assert {"host": it.uuid, "initiator": IQN.connector_id} == root["connector"]
    targets = it.reports["volume_targets"]
    assert {"t-1", "t-2"} == targets.keys()
    assert "iscsi" == targets["t-1"]["volume_type"]
    assert volume_service.IQN + "v-1" == targets["t-1"]["properties"]["target_iqn"]
    assert "driver_volume_type" not in targets["t-1"]["properties"]


def test_fibre_channel_is_attached_by_all_ports_of_the_machine(volumes):
    it = machine(volumes, connectors=FIBRE, targets=(DATA,))
    it.driver.storage.attach_volumes(it)
    (data,) = volumes.of("v-2")
    assert {"host": it.uuid, "wwpns": ["20:00", "20:02"], "wwnns": ["20:01"]} == data["connector"]


@pytest.mark.parametrize("dies_after", ["POST", None])
def test_an_attachment_of_an_earlier_attempt_is_used_again(volumes, dies_after):
    it, other = machine(volumes, targets=(ROOT,)), volumes.attach("v-1", "another machine")
    volumes.dies_after = dies_after
    if dies_after:
        with pytest.raises(Unexpected, match="restarting"):
            it.driver.storage.attach_volumes(it)
    else:
        it.driver.storage.attach_volumes(it)
    it.driver.storage.attach_volumes(it)
    assert 1 == volumes.orders().count(("POST", "attachments"))
    assert ["another machine", it.uuid] == [
        attachment["instance"] for attachment in volumes.of("v-1")
    ]
    assert "attached" == volumes.of("v-1")[1]["status"]
    assert "attaching" == other["status"]


def test_volumes_are_detached_and_their_secrets_forgotten(volumes):
    it = machine(volumes)
    storage = it.driver.storage
    storage.attach_volumes(it)
    attachment = volumes.attach("v-1", "another machine")
    storage.detach_volumes(it)
    assert [attachment] == list(volumes.attachments.values())
    assert {"t-1": {"properties": {}}, "t-2": {"properties": {}}} == it.reports["volume_targets"]
    storage.detach_volumes(it)  # after a death: nothing is left to do
    assert 2 == sum(method == "DELETE" for method, _ in volumes.orders())


def test_nothing_is_attached_or_detached_without_the_lease(volumes):
    def lost():
        raise LeaseLost("taken over")

    it = machine(volumes, targets=(ROOT,))
    thief = replace(it, before_order=lost)
    with pytest.raises(LeaseLost):
        it.driver.storage.attach_volumes(thief)
    it.driver.storage.attach_volumes(it)
    with pytest.raises(LeaseLost):
        it.driver.storage.detach_volumes(thief)
    assert 1 == len(volumes.attachments)


@pytest.mark.parametrize(
    ("change", "expected", "words"),
    [
        ({"broken": 500}, Unexpected, "500 for volume v-1: out of order"),
        ({"broken": 403}, Refused, "403 for volume v-1: out of order"),
        ({"ids": {"v-2"}}, NotFound, "404 for volume v-1: no such volume"),
    ],
)
def test_errors_of_the_service_are_named_with_the_volume(volumes, change, expected, words):
    vars(volumes).update(change)
    it = machine(volumes)
    with pytest.raises(expected, match=words):
        it.driver.storage.attach_volumes(it)
    assert {} == it.reports


def test_a_service_that_does_not_answer_is_unreachable(volumes):
    it = machine(volumes, endpoint_override="http://127.0.0.1:9/v3")
    with pytest.raises(Unreachable, match="volume service did not answer"):
        it.driver.storage.attach_volumes(it)


@pytest.mark.parametrize("password", [keystone.PASSWORD, "wrong"])
def test_the_service_gets_a_token_of_keystone(volumes, password):
    with keystone.serving() as identity:
        it = machine(
            volumes,
            auth_type="password",
            auth_url=identity.url,
            username="ingot",
            password=password,
        )
        if password == "wrong":
            with pytest.raises(Refused, match="Keystone refused") as caught:
                it.driver.storage.attach_volumes(it)
            assert password not in str(caught.value)
            return
        it.driver.storage.attach_volumes(it)
    assert {"ours"} == {token for *_, token in volumes.request_log}


@pytest.mark.parametrize(
    ("options", "connectors", "words"),
    [
        ({"endpoint_override": None}, (IQN,), r"\[cinder\]auth_url"),
        ({}, (VolumeConnector("c", "mac", "52:54:00:00:00:01"),), "connector of type iqn or wwpn"),
        ({}, (), "no volume connector"),
    ],
)
def test_what_is_missing_is_named_before_anything_is_attached(volumes, options, connectors, words):
    it = machine(volumes, connectors, **options)
    with pytest.raises(InvalidDriverInfo, match=words):
        it.driver.storage.validate(it)


def test_an_unknown_plugin_of_keystoneauth_is_named(volumes):
    it = machine(volumes, auth_type="magic")
    with pytest.raises(InvalidDriverInfo, match="auth_type"):
        it.driver.storage.attach_volumes(it)


def test_a_node_without_volumes_needs_no_volume_service(volumes):
    it = machine(volumes, (), (), endpoint_override=None)
    it.driver.storage.validate(it)


@pytest.mark.parametrize("deploy", ["direct", "custom-agent", "ramdisk", "anaconda"])
@pytest.mark.parametrize(("storage", "attaches"), [("cinder", True), ("external", False)])
def test_volumes_are_attached_by_the_deployment_and_detached_by_the_tear_down(
    deploy, storage, attaches
):
    it = target(interfaces={"storage": storage, "deploy": deploy}, volume_targets=(ROOT,))
    frames = it.driver.deploy
    assert attaches == (("storage", "attach_volumes") in frames.frame(it, "deploy").before)
    assert attaches == (("storage", "detach_volumes") in frames.frame(it, "delete").before)
    without = replace(it, volume_targets=())
    assert ("storage", "attach_volumes") not in frames.frame(without, "deploy").before
