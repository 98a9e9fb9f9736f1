"""Rows that the database writes as JSON."""

import json
import uuid
from datetime import datetime

from sqlalchemy import select

from app import db
from app.api import json_rows, node_view
from app.models import Node

COLUMNS = list(Node.__table__.c)
WHEN = datetime(2026, 1, 2, 3, 4, 5, 678901)


def test_the_database_writes_every_type_of_column_as_clients_expect_it(database):
    """Documents as such, truth values, times with microseconds and offset, text with any letter."""
    engine = db.connect(database)
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
    with db.transaction(engine) as session:
        session.add(node)
        session.flush()
        key = node.id
    with db.reading(engine) as session:
        row = session.execute(select(*json_rows.objects(COLUMNS)).where(Node.id == key)).one()
    engine.dispose()
    document = json.loads("{" + json_rows.members(row) + "}")
    assert {column.name for column in COLUMNS} == document.keys()
    expected = {
        "id": key, "name": odd, "extra": {"a": [1, 2.5, None, {"b": odd}]}, "protected": True,
        "retired": False, "automated_clean": None, "lessee": None,
        "provision_updated_at": "2026-01-02T03:04:05.678901+00:00",
    }  # fmt: skip
    assert len("2026-01-02T03:04:05.678901+00:00") == len(document["created_at"])
    assert expected == {name: document[name] for name in expected}


def test_columns_that_are_empty_together_are_told_as_when_they_are_told_alone(database):
    engine = db.connect(database)
    full = {"fault": "x", "maintenance": True, "automated_clean": False, "owner": 'a "b"'}
    with db.transaction(engine) as session:
        for fields in ({}, full):
            node = Node(uuid=str(uuid.uuid4()), driver="fake", provision_state="enroll", **fields)
            session.add(node)
    told = []
    for sparse in ((), node_view.SPARSE):
        query = select(*json_rows.objects(COLUMNS, sparse)).order_by(Node.id)
        with db.looking(engine) as connection:
            rows = connection.execute(query).all()
        told.append([json.loads("{" + json_rows.members(row) + "}") for row in rows])
    engine.dispose()
    assert told[0] == told[1]
    assert [{}, full] == [
        {name: row[name] for name in full if row[name] not in (None, False) or row["fault"]}
        for row in told[1]
    ]
