"""Databases of the tests themselves: rows of one test never reach another one."""

import psycopg
import pytest

from tests.support.postgresql import name_of

WRITTEN = "INSERT INTO chassis (uuid, created_at, extra) VALUES ('c', now(), '{}') RETURNING id"
CHANGES = ["CREATE TABLE more (it int)", "ALTER TABLE chassis ALTER uuid DROP NOT NULL",
           "CREATE INDEX more ON chassis (uuid)", "ANALYZE chassis"]  # fmt: skip


def test_a_copy_is_emptied_and_renamed(postgresql_copies, postgresql_server):
    url = postgresql_copies.take()
    with postgresql_server.connect(name_of(url)) as session:
        (ident,) = session.execute(WRITTEN).fetchone()
        session.execute("DELETE FROM secrets")
        postgresql_copies.give_back(url)  # its session is open
        with pytest.raises(psycopg.OperationalError):
            session.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        postgresql_server.connect(name_of(url))
    again = postgresql_copies.take()
    with postgresql_server.connect(name_of(again)) as session:
        assert 0 == session.execute("SELECT count(*) FROM chassis").fetchone()[0]
        assert 1 == session.execute("SELECT count(*) FROM secrets").fetchone()[0]
        assert ident == session.execute(WRITTEN).fetchone()[0]
    postgresql_copies.give_back(again)


@pytest.mark.parametrize("change", CHANGES)
def test_a_copy_with_another_schema_or_with_statistics_is_dropped(
    postgresql_copies, postgresql_server, change
):
    url = postgresql_copies.take()
    with postgresql_server.connect(name_of(url)) as session:
        session.execute(WRITTEN)
        session.execute(change)
    postgresql_copies.give_back(url)
    next_url = postgresql_copies.take()
    with postgresql_server.connect(name_of(next_url)) as session:
        tables = [name for (name,) in session.execute("SELECT tablename FROM pg_tables")]
        assert "more" not in tables
        assert not session.execute("SELECT 1 FROM pg_stats WHERE tablename = 'chassis'").fetchone()
        null = "SELECT attnotnull FROM pg_attribute WHERE attname = 'uuid' AND attrelid = 'chassis'::regclass"
        assert session.execute(null).fetchone()[0]
        assert not session.execute("SELECT 1 FROM pg_indexes WHERE indexname = 'more'").fetchone()
    postgresql_copies.give_back(next_url)


#: Changes of the catalog beside those of tables.
OTHER_CHANGES = [
    "ALTER TABLE chassis ADD CHECK (uuid <> '')",
    "ALTER TABLE holds DISABLE TRIGGER USER",
    "CREATE FUNCTION more() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "DO $$ BEGIN EXECUTE (SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname LIKE 'change_events_%' LIMIT 1); END $$",
    "CREATE SCHEMA more",
    "ALTER SEQUENCE chassis_id_seq INCREMENT 2",
    "ALTER DATABASE {} SET jit = off",
]


@pytest.mark.parametrize("change", OTHER_CHANGES)
def test_any_change_of_the_catalog_ends_a_copy(postgresql_copies, postgresql_server, change):
    url = postgresql_copies.take()
    free = list(postgresql_copies._free)
    with postgresql_server.connect(name_of(url)) as session:
        session.execute(change.format(name_of(url)))
    postgresql_copies.give_back(url)
    assert free == postgresql_copies._free
