"""A vault, and a service in the test process that keeps passwords in it."""

import pytest

from tests.integration.vault.vaulted import options
from tests.support.inside import Inside
from tests.support.vault_server import ALL, Role, VaultServer, running


@pytest.fixture
def server():
    with running(VaultServer()) as vault:
        vault.roles["auth/approle", "r1"] = Role({"secret/": ALL}, "s1", ttl=600)
        yield vault


@pytest.fixture
def inside(database, server):
    view = Inside(database, **options(server))
    yield view
    view.close()
