"""A service behind PgBouncer: prepared statements and settings are those of a session."""

import os
import tempfile
from pathlib import Path

import pytest

from tests.support import pgbouncer
from tests.support.fleet import CALM, Fleet


@pytest.fixture
def folder():
    """A folder that PgBouncer's account can read."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.mark.parametrize(("mode", "size"), [("transaction", 5), ("session", 60)])
def test_nodes_live_their_life_behind_a_pooler(tmp_path, folder, postgresql_server, mode, size):
    url = postgresql_server.database()
    with (
        pgbouncer.serving(folder, postgresql_server, url, mode, size) as pooled,
        Fleet(tmp_path, INGOT_DATABASE_CONNECTION=pooled, **CALM) as fleet,
    ):
        nodes = fleet.create_nodes(12)
        for verb, state in (
            ("manage", "manageable"), ("provide", "available"), ("active", "active"),
            ("deleted", "available"),
        ):  # fmt: skip
            fleet.provision(nodes, verb)
            fleet.await_state(nodes, state)
            fleet.get("nodes", limit=1000)
        for event in ("request.crashed", "conductor.no_database", "beat.no_database"):
            assert not fleet.log(event)
        assert "prepared statement" not in fleet.text()
    postgresql_server.drop(url)
