"""Volumes of a volume service: attached by deployments, detached by tear-downs."""

from uuid import uuid4

import pytest

from app.models import Node, VolumeConnector, VolumeTarget
from tests.integration.harness import Acme, Harness
from tests.support import volume_service

pytestmark = pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def volumes():
    with volume_service.serving("v-1") as service:
        service.type = "fibre_channel"
        yield service


@pytest.fixture
def harness(inside, volumes):
    inside.environ |= {
        "INGOT_CINDER_AUTH_TYPE": "none",
        "INGOT_CINDER_ENDPOINT_OVERRIDE": volumes.url,
        "INGOT_CINDER_CONNECT_RETRIES": "0",
        "INGOT_CONDUCTOR_STEP_ATTEMPTS": "1",
    }
    view = inside.another()
    yield Harness(view)
    view.close()


@pytest.fixture
def node(harness):
    """The id of an available node that boots from a volume."""
    node = harness.with_agent("available", storage_interface="cinder")
    with harness.inside.runtime.transaction() as session:
        session.add(
            VolumeConnector(uuid=str(uuid4()), node_id=node, type="wwpn", connector_id="20:00")
        )
        volume = {"volume_type": "fibre_channel", "volume_id": "v-1", "boot_index": 0}
        session.add(VolumeTarget(uuid=str(uuid4()), node_id=node, **volume))
    return node


def properties(harness, node):
    with harness.inside.runtime.reading() as session:
        return session.query(VolumeTarget).filter_by(node_id=node).one().properties


def test_a_deployment_attaches_volumes_and_the_tear_down_detaches_them(harness, node, volumes):
    assert "active" == harness.do(node, "active")
    labels = [label for label, _ in harness.labels(node)]
    assert labels.index("storage.attach_volumes") < labels.index("deploy.prepare_instance_boot")
    assert "prepare_instance" in Acme.did
    (attached,) = volumes.of("v-1")
    assert (harness.inside.read(node).uuid, "attached") == (
        attached["instance"],
        attached["status"],
    )
    assert "sesame" == properties(harness, node)["auth_password"]
    assert "active" == harness.do(node, "rebuild")
    assert [attached] == volumes.of("v-1")
    harness.inside.change(Node, node, automated_clean=False)
    assert "available" == harness.do(node, "deleted")
    assert [] == volumes.of("v-1")
    assert {} == properties(harness, node)


def test_a_deployment_without_its_volume_fails_and_is_repeated(harness, node, volumes):
    volumes.broken = 500
    assert "deploy failed" == harness.do(node, "active")
    assert "volume service answered 500 for volume v-1" in harness.inside.read(node).last_error
    assert {} == properties(harness, node)
    volumes.broken = None
    assert "active" == harness.do(node, "active")
    assert 1 == len(volumes.of("v-1"))
    volumes.broken = 500
    assert "error" == harness.do(node, "deleted")
    assert 1 == len(volumes.of("v-1"))
    volumes.broken = None
    harness.inside.change(Node, node, automated_clean=False)
    assert "available" == harness.do(node, "deleted")
    assert [] == volumes.of("v-1")
