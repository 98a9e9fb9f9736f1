"""Views of the service and the vault for tests."""

import pytest
from sqlalchemy import Text, cast, select, update

from app.db.clock import after
from app.models import Node, VaultSecret, VaultState

SECRET = "hunter-2-hunter"
INFO = {"redfish_address": "https://192.0.2.1", "redfish_username": "u", "redfish_password": SECRET}
SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
BOTH = pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)


def options(server, **fields):
    values = {"address": server.address, "role_id": "r1", "secret_id": "s1", "timeout": 2, **fields}
    return {f"INGOT_VAULT_{name.upper()}": str(value) for name, value in values.items()}


def states(inside):
    with inside.runtime.reading() as session:
        return sorted(session.scalars(select(VaultSecret.state)))


def values_of(server):
    return sorted((content["value"] for content in server.contents().values()), key=str)


def database_text(inside):
    """Return all rows of nodes and secrets as they are stored."""
    with inside.runtime.reading() as session:
        rows = session.execute(
            select(cast(Node.driver_info, Text), cast(Node.driver_internal_info, Text))
        ).all()
        return str(rows)


def set_info(inside, node, info):
    """Set `driver_info` of a node, with its secrets in the vault."""

    def write():
        with inside.runtime.transaction() as session:
            session.get_one(Node, node).driver_info = info

    inside.runtime.storing(write)


def let_days_pass(inside, days):
    with inside.runtime.write_connection() as connection:
        connection.execute(
            update(VaultSecret).where(VaultSecret.state != VaultState.USED)
            .values(changed_at=after(-days * 86400.0))
        )  # fmt: skip
