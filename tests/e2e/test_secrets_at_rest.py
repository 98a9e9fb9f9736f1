"""No secret of a run is readable in the database, its write-ahead log, or Redis' file."""

import base64
import stat
import threading
from contextlib import contextmanager

import pytest
from sqlalchemy import select, text

from app.config import settings as app_settings
from app.db import connections
from app.models import AgentRecord, Base
from app.rows import data_keys
from drivers.simulator.simulator import running
from tests.support.fleet import AGENTS, Fleet

PACE = {"boot_seconds": 0.3, "heartbeat_gap": 0.3, "retry_factor": 0.05, "step_seconds": 0.1}
INTERFACES = {"INGOT_DEFAULT_RESCUE_INTERFACE": "agent"}
BMC, USER_DATA, RESCUE = "Bmc-s3cret-11", "User-s3cret-22", "Rescue-s3cret-33"
CHAP, STEP, CALL, LATER, SIGNED = (
    f"{name}-s3cret" for name in ("Chap", "Step", "Call", "Later", "Sig")
)


def post(fleet, path, body, status=201, method="POST"):
    answer = fleet.http.request(method, f"{fleet.url}/v1/{path}", json=body, timeout=60)
    assert status == answer.status_code, answer.text
    return answer


def verb(fleet, node, target, state, **arguments):
    body = {"target": target, **arguments}
    post(fleet, f"nodes/{node}/states/provision", body, 202, "PUT")
    fleet.await_state([node], state)


def all_verbs(fleet, simulator):
    """Take a machine through its life; return all secrets of the run."""
    (node,) = fleet.enrol(simulator)
    fleet.http.headers["X-OpenStack-Ironic-API-Version"] = "1.115"
    properties = {"auth_username": "u", "auth_password": CHAP, "target_iqn": "iqn"}
    post(fleet, "volume/targets", {"node_uuid": node, "volume_type": "iscsi", "volume_id": "v",
                                   "boot_index": 0, "properties": properties})  # fmt: skip
    steps = [{"interface": "bios", "step": "x", "args": {"password": STEP}, "priority": 1}]
    post(fleet, "deploy_templates", {"name": "CUSTOM_X", "steps": steps})
    url = {"op": "add", "path": "/extra/url", "value": f"http://h/i?sig={SIGNED}"}
    post(fleet, f"nodes/{node}", [url], 200, "PATCH")
    fake = post(fleet, "nodes", {"driver": "fake-hardware"}).json()["uuid"]
    post(fleet, f"nodes/{fake}/vendor_passthru/third_method_sync", {"bar": CALL}, 200)
    post(fleet, f"nodes/{fake}/vendor_passthru/second_method", {"bar": {"token": LATER}}, 202)
    verb(fleet, node, "manage", "manageable")
    verb(fleet, node, "inspect", "manageable")
    verb(fleet, node, "provide", "available")
    verb(fleet, node, "active", "active", configdrive={"user_data": USER_DATA})
    verb(fleet, node, "rescue", "rescue", rescue_password=RESCUE)
    verb(fleet, node, "unrescue", "active")
    verb(fleet, node, "rebuild", "active", configdrive={"user_data": USER_DATA})
    document = fleet.get(f"nodes/{node}")
    assert "http://h/i?sig=" in document["extra"]["url"]
    assert SIGNED in document["extra"]["url"]
    verb(fleet, node, "deleted", "available")
    return node, [BMC, USER_DATA, base64.b64encode(USER_DATA.encode()).decode(), RESCUE, CHAP, STEP,
                  CALL, LATER, SIGNED]  # fmt: skip


@contextmanager
def tokens_in(database):
    """Yield a set that collects the tokens of agents, which exist only while a flow runs."""
    engine = connections.connect(database.connection, keyring=data_keys.keyring(database))
    tokens, ended = set(), threading.Event()

    def watch():
        while not ended.wait(0.1):
            with engine.connect() as connection:
                query = select(AgentRecord.token).where(AgentRecord.token.is_not(None))
                tokens.update(connection.scalars(query))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield tokens
    finally:
        ended.set()
        thread.join()
        engine.dispose()


def rows_of(url):
    """Return all rows of a database as text."""
    engine = connections.connect(url)
    try:
        with engine.connect() as connection:
            return "\n".join(
                str(row)
                for table in Base.metadata.tables
                for row in connection.execute(text(f"SELECT CAST(t AS TEXT) FROM {table} t"))
            ).encode()
    finally:
        engine.dispose()


def redis_file(fleet):
    return b"".join(path.read_bytes() for path in fleet.data.rglob("*.aof"))


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_no_secret_of_a_run_is_stored_in_the_clear(tmp_path, kind, request):
    is_sqlite = kind == "sqlite"
    url = f"sqlite:///{tmp_path}/data/ingot.db"
    environ = {"INGOT_DATABASE_SECRETS_KEY_FILE": str(tmp_path / "data.key")}
    options = ()
    if not is_sqlite:
        url = request.getfixturevalue("postgresql_server").database()
        (tmp_path / "data.key").write_text(base64.b64encode(b"k" * 32).decode())
        options = ("--database", url)
    database = app_settings.load(environ | {"INGOT_DATABASE_CONNECTION": url}).database
    settings = INTERFACES if is_sqlite else INTERFACES | environ
    with (
        running(machines=1, password=BMC, **PACE) as simulator,
        Fleet(tmp_path, *options, conductors=1, **AGENTS, **settings) as fleet,
    ):
        with tokens_in(database) as tokens:
            node, secrets = all_verbs(fleet, simulator)
        assert tokens
        secrets += tokens
        if is_sqlite:
            assert 0o600 == stat.S_IMODE((tmp_path / "data.key").stat().st_mode)
            files = [path for path in fleet.data.iterdir() if path.name.startswith("ingot.db")]
            stored = {file.name: file.read_bytes() for file in files}
        else:
            stored = {"dump": rows_of(url)}
        stored["redis"] = redis_file(fleet)
        log = fleet.text()
    assert node.encode() in b"".join(stored.values())  # the search finds what is there
    assert b":question:" in stored["redis"]
    leaks = [
        (name, secret)
        for name, data in stored.items()
        for secret in secrets
        if secret.encode() in data
    ]
    assert [] == leaks
    assert [] == [secret for secret in secrets if secret in log]
