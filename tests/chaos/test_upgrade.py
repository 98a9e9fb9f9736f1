"""Two releases in one fleet, and a fleet of this release on the data of the release before."""

import base64
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections import Counter
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest
import requests
from sqlalchemy import DateTime, MetaData, create_engine

from app.db.clock import utcnow
from app.db.connections import connect
from app.db.schema import MIGRATIONS
from app.process import release
from tests.chaos.test_faults import SLOW
from tests.support.fleet import PATIENCE, ROOT, Fleet, until
from tests.support.ports import free_port

FROZEN = Path(__file__).with_name("upgrade")
#: Tag of the release before this one: the last one in this clone's history.
PREVIOUS = ("v0.1.0", "3fc0bc7")


def git(*words):
    answer = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=False)
    return answer.stdout if answer.returncode == 0 else None


@pytest.fixture(scope="module")
def previous(tmp_path_factory):
    """Folder with the release before this one."""
    names = (name for name in PREVIOUS if git("rev-parse", "--verify", f"{name}^{{commit}}"))
    name = next(names, None)
    if name is None:
        pytest.skip("the previous release is not in this clone; its data is, see below")
    folder = tmp_path_factory.mktemp("previous")
    (folder / "tree.tar").write_bytes(git("archive", name))
    with tarfile.open(folder / "tree.tar") as tree:
        tree.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has none
        tree.extractall(folder / "tree")
    return folder / "tree"


class Older:
    """Processes of the older release, in the fleet of this one."""

    def __init__(self, fleet, tree):
        self.port = free_port()
        self.tree, self.url = tree, f"http://127.0.0.1:{self.port}"
        self.log = (fleet.folder / "older.log").open("w")
        self.environ = fleet.environ | {
            "INGOT_DATABASE_CONNECTION": f"sqlite:///{fleet.data / 'ingot.db'}",
            "INGOT_BROKER_URL": f"redis+socket://{fleet.data / 'redis.sock'}",
            "INGOT_API_PORT": str(self.port),
        }

    def start(self, *role):
        command = [sys.executable, "-m", "workers.cli", *role]
        return subprocess.Popen(command, cwd=self.tree, env=self.environ, stderr=self.log)

    def answers(self):
        try:
            return requests.get(self.url, timeout=5).ok
        except requests.ConnectionError:
            return False


@contextmanager
def mixed(folder, tree, **environ):
    """A fleet with a conductor, an API and a beat of each release; `old` are the older ones."""
    with Fleet(folder, conductors=1, **SLOW, **environ) as fleet:
        older = Older(fleet, tree)
        fleet.old = {
            "api": older.start("api"),
            "conductor": older.start("conductor", "--name", "old-1"),
            "beat": older.start("beat"),
        }
        try:
            until(older.answers, "the API of the older release")
            until(lambda: alive(fleet) == {"fleet-1", "old-1"}, "its conductor")
            fleet.urls = [fleet.url, older.url]
            yield fleet
        finally:
            for process in fleet.old.values():
                process.terminate()
            for process in fleet.old.values():
                process.wait(PATIENCE)
            older.log.close()


def alive(fleet):
    return {
        conductor["hostname"]
        for conductor in fleet.get("conductors")["conductors"]
        if conductor["alive"]
    }


def ask(fleet, nodes, verb):
    """Request a verb of the two APIs in turn."""
    for at, node in enumerate(nodes):
        fleet.url = fleet.urls[at % 2]
        fleet.provision([node], verb)
    fleet.url = fleet.urls[0]


def test_two_releases_share_the_work_of_a_fleet_and_take_over_from_each_other(tmp_path, previous):
    with mixed(tmp_path, previous) as fleet:
        nodes = fleet.create_nodes(12)
        for verb, state in (("manage", "manageable"), ("provide", "available")):
            ask(fleet, nodes, verb)
            fleet.await_state(nodes, state)
        workers = Counter(
            step["conductor"]
            for node in nodes
            for operation in fleet.operations(node)
            for step in operation["steps"]
        )
        assert {"fleet-1", "old-1"} == set(workers)

        newest_event = fleet.newest_event()
        ask(fleet, nodes, "active")  # the older conductor dies; the newer one continues
        fleet.await_entry("wait call-back", newest_event)
        fleet.old["conductor"].kill()
        fleet.await_state(nodes, "active")

        older = Older(fleet, previous)
        fleet.old["conductor"] = older.start("conductor", "--name", "old-1")
        until(lambda: alive(fleet) == {"fleet-1", "old-1"}, "its return")
        newest_event = fleet.newest_event()
        ask(fleet, nodes, "deleted")  # and now the other way round
        fleet.await_entry("clean wait", newest_event)
        os.kill(fleet.conductor(1), signal.SIGKILL)
        fleet.await_state(nodes, "available")
        older.log.close()
        operations = [operation for node in nodes for operation in fleet.operations(node)]
        assert {"succeeded": 48} == Counter(operation["state"] for operation in operations)


#: No message is sent again.
SELDOM = {"INGOT_CONDUCTOR_RECONCILE_INTERVAL": "600"}


def deliver(fleet, message):
    """Give a message to the conductor, and wait until it has an effect."""
    node = next(node for node, state in fleet.states().items() if state == "cleaning")
    assert "queued" == fleet.operation(node, "provide")["state"]
    with fleet.redis() as client:
        client.lpush("conductor.fleet-1", message)
    until(lambda: fleet.operation(node, "provide")["cursor"], "the effect of the message")


def test_a_message_of_a_later_release_is_forwarded(frozen):
    message = json.loads((FROZEN / "message.json").read_text())
    message["headers"]["ingot_version"] = release.UNDERSTOOD + 1
    (node, operation, *_), keys, embed = json.loads(base64.b64decode(message["body"]))
    body = [[node, operation, {"of": "another shape"}], keys, embed]
    message["body"] = base64.b64encode(json.dumps(body).encode()).decode()
    with Fleet(frozen, conductors=1, **SELDOM) as fleet:
        deliver(fleet, json.dumps(message))
        assert [operation] == [line["operation"] for line in fleet.log("message.forwarded")]


@pytest.fixture
def frozen(tmp_path):
    """Folder of a fleet that the older release has left in the middle of its work."""
    from alembic import command
    from alembic.config import Config

    (tmp_path / "data").mkdir()
    url = f"sqlite:///{tmp_path / 'data' / 'ingot.db'}"
    fill(url, partial(command.upgrade, revision="0001"), Config())
    return tmp_path


def fill(url, upgrade, config):
    """Create the schema of the older release, and its rows with present times."""
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["url"] = url
    upgrade(config)
    engine = connect(url)
    tables = MetaData()
    tables.reflect(engine)
    with engine.begin() as connection:
        insert_rows(connection, tables)
    engine.dispose()


def insert_rows(connection, tables):
    """Insert the rows of the older release; their times are shifted so that deadlines are ahead."""
    rows_by_table = json.loads((FROZEN / "rows.json").read_text())
    newest = max(datetime.fromisoformat(row["created_at"]) for row in rows_by_table["operations"])
    passed = utcnow() - newest
    for name, rows in rows_by_table.items():
        columns = tables.tables[name].c
        times = {column.name for column in columns if isinstance(column.type, DateTime)}
        moved = [
            {
                key: datetime.fromisoformat(value) + passed if value and key in times else value
                for key, value in row.items()
            }
            for row in rows
        ]
        connection.execute(tables.tables[name].insert(), moved)


def test_unfinished_work_of_the_older_release_is_completed(frozen):
    with Fleet(frozen, conductors=1, **SELDOM) as fleet:
        deliver(fleet, (FROZEN / "message.json").read_text())
        assert [] == fleet.log("message.forwarded")
    with Fleet(frozen, conductors=1) as fleet:
        nodes = list(fleet.states())
        until(lambda: {"active", "available"} == set(fleet.states().values()), "the end of all")
        assert {"succeeded"} == {
            operation["state"] for node in nodes for operation in fleet.operations(node)
        }


def test_the_older_release_can_write_to_the_schema_of_this_one(database):
    """Its rows have no values for the columns that were added since."""
    engine = create_engine(connect(database).url)
    tables = MetaData()
    tables.reflect(engine)
    with engine.begin() as connection:
        insert_rows(connection, tables)
        for name in json.loads((FROZEN / "rows.json").read_text()):
            assert connection.execute(tables.tables[name].select()).first()
    engine.dispose()
