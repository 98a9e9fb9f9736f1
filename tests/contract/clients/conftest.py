"""A service with fake hardware, and the clients that talk to it."""

from itertools import count

import openstack
import pytest

from tests.contract.clients.cli import Baremetal
from tests.support.fleet import Fleet

_numbers = count(1)


@pytest.fixture(scope="package")
def fleet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clients")
    with Fleet(folder, conductors=1) as running:
        yield running


@pytest.fixture(scope="package")
def baremetal(fleet):
    return Baremetal(fleet.url)


@pytest.fixture(scope="package")
def connection(fleet):
    """The SDK's connection."""
    with openstack.connect(
        auth_type="none",
        endpoint=fleet.url,
        baremetal_endpoint_override=fleet.url,
        load_yaml_config=False,
        load_envvars=False,
    ) as made:
        yield made


@pytest.fixture(scope="package")
def cloud(connection):
    """The SDK's bare metal service."""
    return connection.baremetal


@pytest.fixture
def node(baremetal):
    """The name of a node of fake hardware, which is gone when its test is."""
    name = f"node-{next(_numbers)}"
    baremetal("node", "create", "--driver", "fake-hardware", "--name", name)
    yield name
    baremetal("node", "maintenance", "set", name)
    baremetal("node", "delete", name)
