"""A service with fake hardware, and its clients."""

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
    """Connection of the SDK."""
    with openstack.connect(
        auth_type="none",
        endpoint=fleet.url,
        baremetal_endpoint_override=fleet.url,
        load_yaml_config=False,
        load_envvars=False,
    ) as sdk_connection:
        yield sdk_connection


@pytest.fixture(scope="package")
def cloud(connection):
    """Bare metal service of the SDK."""
    return connection.baremetal


@pytest.fixture
def node(baremetal):
    """Name of a node of fake hardware, which is deleted after its test."""
    name = f"node-{next(_numbers)}"
    baremetal("node", "create", "--driver", "fake-hardware", "--name", name)
    yield name
    baremetal("node", "maintenance", "set", name)
    baremetal("node", "delete", name)
