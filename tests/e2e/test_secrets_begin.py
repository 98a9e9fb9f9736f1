"""The first `ingot secrets rotate` of a PostgreSQL database with nodes, with deaths on the way."""

import base64
import json
import time

from sqlalchemy import text

from app.broker import queue
from app.config.settings import load
from app.db import connections
from app.models import Base, Node
from app.rows import data_keys
from tests.support import programs
from tests.support.fleet import PATIENCE, Fleet, until

SECRET, LATER = "Bmc-s3cret-44", "Later-s3cret-55"


def rows_of(engine):
    """All rows of all tables, as the database has them."""
    with engine.connect() as connection:
        return "\n".join(
            str(row)
            for table in Base.metadata.tables
            for row in connection.execute(text(f"SELECT CAST(t AS TEXT) FROM {table} t"))
        )


def start_sealing(fleet):
    """Send the periodic task now, which is due once a minute."""
    broker = f"redis+socket://{fleet.data}/redis.sock"
    with queue.celery(load({"INGOT_BROKER_URL": broker})) as application:
        queue.send_task(
            application, "ingot.seal_older_rows", (), queue.queues_of(application).shared
        )


def test_a_database_with_nodes_is_encrypted_as_the_page_says(tmp_path, postgresql_server):
    url = postgresql_server.database()
    (tmp_path / "secrets.key").write_text(base64.b64encode(b"k" * 32).decode())
    key = {"INGOT_DATABASE_SECRETS_KEY_FILE": str(tmp_path / "secrets.key")}
    environ = {"INGOT_CONFIG": "", "INGOT_DATABASE_CONNECTION": url, **key}
    engine = connections.connect(url)
    options = ("--database", url)

    def rotate():
        return programs.start("workers.cli:main", argv=("secrets", "rotate"), environ=environ)

    def status():
        result = programs.run("workers.cli:main", argv=("secrets", "status"), environ=environ)
        assert 0 == result.status, result.err
        return json.loads(result.out)

    with Fleet(tmp_path, *options, conductors=1) as fleet:
        nodes = fleet.create_nodes(5, driver_info={"redfish_password": SECRET})
    try:
        with Fleet(tmp_path, *options, conductors=1, **key) as fleet:  # all processes have the key
            assert SECRET in rows_of(engine)
            assert [] == status()["data_keys"]
            with engine.begin() as connection:
                connection.execute(text("LOCK TABLE data_keys IN SHARE MODE"))
                died = rotate()
                waits = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
                with engine.connect() as other:
                    until(lambda: other.scalar(waits), "the insertion of the data key")
                died.kill()
                died.wait()
            assert [] == status()["data_keys"], "a rotation that dies has changed nothing"
            assert 0 == rotate().wait(PATIENCE)
            assert 1 == len(status()["data_keys"])
            start_sealing(fleet)
            fleet.provision(nodes, "manage")
            fleet.await_state(nodes, "manageable")
            assert SECRET in rows_of(engine), "other processes may not know the data key yet"

        with engine.begin() as connection:
            connection.execute(text("UPDATE data_keys SET created_at = '2026-01-01'"))
        mark = tmp_path / "sealing"
        kill = {"INGOT_KILL_POINTS": f"any:sealed:nodes=die-{mark}"}
        with Fleet(tmp_path, *options, conductors=2, restart=True, **key, **kill) as fleet:
            fleet.http.post(
                f"{fleet.url}/v1/nodes", timeout=30,
                json={"driver": "fake-hardware", "driver_info": {"redfish_password": LATER}},
            ).raise_for_status()  # fmt: skip
            assert LATER not in rows_of(engine)
            start_sealing(fleet)
            until(mark.exists, "the death of a conductor")
            assert SECRET in rows_of(engine)
            assert "nodes" in status()["tables_to_encrypt"]
            end = time.monotonic() + PATIENCE
            while status()["tables_to_encrypt"]:
                assert time.monotonic() < end
                start_sealing(fleet)
                time.sleep(0.5)
            fleet.provision(nodes, "provide")
            fleet.await_state(nodes, "available")
            stored = rows_of(engine)
            assert nodes[0] in stored
            assert SECRET not in stored
        keyed = connections.connect(url, keyring=data_keys.keyring(load(environ).database))
        with keyed.connect() as connection:
            driver_infos = list(
                connection.scalars(Node.__table__.select().with_only_columns(Node.driver_info))
            )
        keyed.dispose()
        assert 5 == [driver_info["redfish_password"] for driver_info in driver_infos].count(SECRET)
    finally:
        engine.dispose()
