"""Rows that the database writes as JSON."""

import json
import uuid
from datetime import datetime

from sqlalchemy import select

from app import db
from app.api import json_rows
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
    document = json.loads(row[0]) | json.loads(row[1])
    assert {column.name for column in COLUMNS} == document.keys()
    expected = {
        "id": key, "name": odd, "extra": {"a": [1, 2.5, None, {"b": odd}]}, "protected": True,
        "retired": False, "automated_clean": None, "lessee": None,
        "provision_updated_at": "2026-01-02T03:04:05.678901+00:00",
    }  # fmt: skip
    assert len("2026-01-02T03:04:05.678901+00:00") == len(document["created_at"])
    assert expected == {name: document[name] for name in expected}


def test_columns_are_told_alike_however_they_are_read(database):
    """Whether the database or we make the text of them, and whatever of it is known already."""
    engine = db.connect(database)
    full = {
        "fault": 'a "b"', "maintenance": True, "automated_clean": False, "owner": "ügly\n",
        "raid_config": {"a": [1]}, "updated_at": WHEN,
        "provision_updated_at": WHEN.replace(microsecond=0),
    }  # fmt: skip
    with db.transaction(engine) as session:
        for fields in ({}, full, {}, full):
            node = Node(uuid=str(uuid.uuid4()), driver="fake", provision_state="enroll", **fields)
            session.add(node)

    def told(parts):
        with db.looking(engine) as connection:
            columns = [each.column.label(f"part_{n}") for n, each in enumerate(parts)]
            rows = connection.execute(select(*columns).order_by(Node.id)).all()
        pairs = zip(parts, zip(*rows, strict=True), strict=True)
        texts = [each.members(column) for each, column in pairs]
        return [json.loads(f"{{{','.join(row)}}}") for row in zip(*texts, strict=True)]

    few = [column for column in COLUMNS if column.name in full or column.name == "name"]
    times = [column for column in few if column.name.endswith("_at")]
    rest = [column for column in few if column not in times]
    plain = [column for column in rest if column.name != "raid_config"]
    document = [column for column in rest if column not in plain]
    whole = told([json_rows.together(few)])
    moments = [json_rows.moment(column) for column in times]
    assert [{"owner": None, "raid_config": {}}, {"owner": "ügly\n", "raid_config": {"a": [1]}}] == [
        {name: row[name] for name in ("owner", "raid_config")} for row in whole[:2]
    ]
    assert whole == told([json_rows.sparse(rest), *moments])
    assert whole == told([json_rows.recurring(plain), json_rows.sparse(document), *moments])
    engine.dispose()
