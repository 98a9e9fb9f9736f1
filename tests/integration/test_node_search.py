"""`node_search`: triggers keep the texts of nodes in it, from the migration on."""

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import delete, insert, select, text, update

from app.db import connections, schema
from app.models import Node, NodeSearch, NodeTrait, Port

UUID = "ab000000-0000-4000-8000-00000000000{}".format
ADDRESSES = {"redfish_address": "https://BMC-1/redfish", "ipmi_address": "10.0.0.5"}


def texts(inside, node):
    """Return the texts of a node: column -> its lines in an order."""
    table = NodeSearch.__table__
    with inside.runtime.read_connection() as connection:
        row = connection.execute(select(table).where(table.c.node_id == node)).mappings().one()
    return {name: value and sorted(filter(None, value.split("\n"))) for name, value in row.items()
             if name != "node_id"}  # fmt: skip


@pytest.fixture
def node(inside):
    return inside.node(name="Rack1-u1", last_error="Timed OUT", driver_info=dict(ADDRESSES))


def changed(inside, table, **values):
    with inside.runtime.transaction() as session:
        session.execute(update(table).values(**values))


def test_a_new_node_has_its_texts_in_small_letters(inside, node):
    row = texts(inside, node)
    assert {"rack1-u1", "fake-hardware"} < set(row["texts"])
    assert (["timed out"], ["10.0.0.5", "https://bmc-1/redfish"]) == (row["last_error"], row["bmc"])


@pytest.mark.parametrize(
    "column",
    ["name", "driver", "resource_class", "conductor_group", "shard", "description", "instance_uuid", "instance_name"],
)  # fmt: skip
def test_a_changed_column_changes_the_text(inside, node, column):
    changed(inside, Node, **{column: "Ä-New"})
    assert "Ä-new" in texts(inside, node)["texts"]
    if column not in ("driver", "conductor_group"):
        changed(inside, Node, **{column: None})
        assert "Ä-new" not in texts(inside, node)["texts"]


def test_the_last_error_and_the_addresses_follow(inside, node):
    changed(inside, Node, last_error=None)
    assert texts(inside, node)["last_error"] is None
    changed(inside, Node, last_error="Refused")
    assert ["refused"] == texts(inside, node)["last_error"]
    for secret in ("https://me:pw@BMC", "https://BMC?token=pw", "https://BMC#pw", 5, ["a"], None):
        changed(inside, Node, driver_info=ADDRESSES | {"redfish_address": secret})
        assert ["10.0.0.5"] == texts(inside, node)["bmc"], secret
    changed(inside, Node, driver_info={})
    assert texts(inside, node)["bmc"] is None


def test_ports_and_traits_are_added_changed_moved_and_removed(inside, node):
    other = inside.node()
    with inside.runtime.transaction() as session:
        session.execute(insert(Port), [
            {"uuid": UUID(n), "node_id": node, "address": f"aa:bb:cc:dd:ee:0{n}"} for n in (1, 2)
        ])  # fmt: skip
        session.execute(insert(NodeTrait), [{"node_id": node, "trait": "CUSTOM_A"}])
    assert ["aa:bb:cc:dd:ee:01", "aa:bb:cc:dd:ee:02", "custom_a"] == texts(inside, node)["related"]
    with inside.runtime.transaction() as session:
        session.execute(
            update(Port).where(Port.uuid == UUID(1)).values(address="aa:bb:cc:dd:ee:0f")
        )
        session.execute(update(Port).where(Port.uuid == UUID(2)).values(node_id=other))
    assert ["aa:bb:cc:dd:ee:0f", "custom_a"] == texts(inside, node)["related"]
    assert ["aa:bb:cc:dd:ee:02"] == texts(inside, other)["related"]
    with inside.runtime.transaction() as session:
        session.execute(delete(Port))
        session.execute(delete(NodeTrait))
    assert ("", "") == (texts(inside, node)["related"], texts(inside, other)["related"])


def test_the_texts_of_a_deleted_node_go_with_it(inside, node):
    with inside.runtime.transaction() as session:
        session.execute(delete(Node))
    with inside.runtime.read_connection() as connection:
        assert connection.execute(select(NodeSearch.__table__)).first() is None


def test_the_migration_fills_the_table_and_its_way_back_removes_the_triggers(inside, node):
    url = inside.settings.database.connection
    old_texts = texts(inside, node)
    config = Config()
    config.set_main_option("script_location", str(schema.MIGRATIONS))
    config.attributes["url"] = url
    command.downgrade(config, "0029-1")
    changed(inside, Node, name="later")
    schema.upgrade(url)
    new_texts = texts(inside, node)
    assert old_texts | {"texts": new_texts["texts"]} == new_texts
    assert "later" in new_texts["texts"]
    engine = connections.connect(url)
    with engine.connect() as connection:
        assert 1 == connection.execute(text("SELECT count(*) FROM node_search")).scalar_one()
    engine.dispose()
