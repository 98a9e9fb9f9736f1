"""Rows that the database writes as JSON."""

import json
import uuid
from datetime import datetime

import pytest
from sqlalchemy import select

from app.api.node import json_rows
from app.db import connections, transactions
from app.models import Node

COLUMNS = list(Node.__table__.c)
WHEN = datetime(2026, 1, 2, 3, 4, 5, 678901)


def test_the_database_writes_every_type_of_column_as_clients_expect_it(database):
    """Documents, booleans, times with microseconds and offset, text with any character."""
    engine = connections.connect(database)
    odd = 'quoted "and" \\ slashed,\nügly\t☃'
    node = Node(
        uuid=str(uuid.uuid4()),
        driver="fake",
        provision_state="enroll",
        name=odd,
        extra={"a": [1, 2.5, None, {"b": odd}]},
        protected=True,
        provision_updated_at=WHEN,
    )
    with transactions.transaction(engine) as session:
        session.add(node)
        session.flush()
        key = node.id
    with transactions.reading(engine) as session:
        row = session.execute(select(*json_rows.objects(COLUMNS)).where(Node.id == key)).one()
    engine.dispose()
    document = json.loads(row[0]) | json.loads(row[1])
    assert {column.name for column in COLUMNS} == document.keys()
    expected = {
        "id": key, "name": odd, "extra": {"a": [1, 2.5, None, {"b": odd}]}, "protected": True,
        "retired": False, "automated_clean": None, "lessee": None,
        "provision_updated_at": "2026-01-02T03:04:05.678901+00:00",
    }  # fmt: skip
    assert len("2026-01-02T03:04:05.678901+00:00") == len(document["created_at"])
    assert expected == {name: document[name] for name in expected}


def test_columns_are_equal_in_every_form_of_read(database):
    """Singly, as an object, or together with others."""
    engine = connections.connect(database)
    full = {
        "fault": 'a "b"\x7f', "maintenance": True, "automated_clean": False, "owner": "ügly\n",
        "lessee": "", "shard": '\\ (a,b) \\"" ', "resource_class": "t", "description": None,
    }  # fmt: skip
    with transactions.transaction(engine) as session:
        for fields in ({}, full):
            node = Node(uuid=str(uuid.uuid4()), driver="fake", provision_state="enroll", **fields)
            session.add(node)
    few = [column for column in COLUMNS if column.name in full]
    with transactions.read_connection(engine) as connection:
        query = select(json_rows.combined(few), json_rows.JsonObject(*few), *few)
        rows = connection.execute(query.order_by(Node.id)).all()
    engine.dispose()
    assert dict.fromkeys(full) | {"maintenance": False} == json.loads(rows[0][1])
    assert full == json.loads(rows[1][1])
    for together, whole, *plain in rows:
        parts = json_rows.split(few, together)
        assert json.loads(whole) == {name: json.loads(text) for name, text in parts.items()}
        assert plain == [json.loads(parts[column.name]) for column in few]


@pytest.mark.parametrize("microsecond", [678901, 500_000, 0])
def test_a_time_is_shown_with_microseconds_and_offset(database, microsecond):
    """Also if it has zeros at the end, which PostgreSQL does not print."""
    when = WHEN.replace(microsecond=microsecond)
    engine = connections.connect(database)
    node = Node(
        uuid=str(uuid.uuid4()), driver="fake", provision_state="enroll", provision_updated_at=when
    )
    with transactions.transaction(engine) as session:
        session.add(node)
    with transactions.read_connection(engine) as connection:
        text = connection.scalar(select(json_rows.Moment(Node.__table__.c.provision_updated_at)))
    engine.dispose()
    assert f"{when.isoformat(timespec='microseconds')}+00:00" == json_rows.iso(text)
