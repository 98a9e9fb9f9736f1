"""Each role alone on PostgreSQL, as its own user with the rights of `ingot db grants`."""

import subprocess
from contextlib import contextmanager

import pytest

from tests.e2e.roles_alone import LIFE, Site
from tests.support import postgresql, programs
from tests.support import redis as own_redis
from tests.support.database_users import create, url_of
from tests.support.fleet import PATIENCE, until


@pytest.fixture
def url(postgresql_server):
    database_url = postgresql_server.database()
    yield database_url
    postgresql_server.drop(database_url)


@pytest.fixture
def users(postgresql_server):
    with postgresql_server.connect() as session:
        create(session)


@pytest.fixture
def broker(tmp_path):
    with own_redis.serving(tmp_path) as port:
        yield f"redis://127.0.0.1:{port}/0"


@contextmanager
def site_on(tmp_path, broker, url):
    """The roles, each as its own user; the tables belong to another one."""
    site = Site(
        tmp_path, lambda _role: broker, lambda role: url if role == "owner" else url_of(role, url)
    )
    site.environ |= {
        "INGOT_CONDUCTOR_SYNC_POWER_STATE_INTERVAL": "1",
        "INGOT_CONDUCTOR_CONDUCTOR_CLEANUP_INTERVAL": "1",
    }
    try:
        site.start("--grants")
        yield site
    except BaseException:
        print(site.text()[-6000:])
        raise
    finally:
        site.kill()


def test_roles_need_no_more_rights_than_their_users_have(tmp_path, broker, url, users):
    with site_on(tmp_path, broker, url) as site:
        check(site)


def check(site):
    """Cause statements of all kinds in all roles."""
    rule = {"actions": [{"op": "set-attribute", "args": {"path": "/extra/seen", "value": "yes"}}]}
    site.request("POST", "inspection_rules", **rule)
    hook = {"name": "w", "url": "http://127.0.0.1:9/", "secret": "0123456789abcdef"}
    site.request("POST", "webhooks", **hook)
    node = site.request("POST", "nodes", driver="fake-hardware", resource_class="x").json()["uuid"]
    for verb, state in LIFE.items():
        site.provision(node, verb, state)
    site.request("PUT", f"nodes/{node}/management/boot_device", boot_device="pxe")
    allocation = site.request("POST", "allocations", resource_class="x").json()["uuid"]
    until(
        lambda: site.request("GET", f"allocations/{allocation}").json()["state"] == "active",
        "the allocation",
    )
    site.request("DELETE", f"allocations/{allocation}")
    rollout = site.request("POST", "rollouts", target="manage", nodes={}).json()["uuid"]
    until(
        lambda: site.request("GET", f"rollouts/{rollout}").json()["state"] == "completed",
        "the end of the rollout",
    )
    site.processes[1].kill()
    until(lambda: "conductor.lost" in site.text(), "the record of the loss")
    site.processes[1] = site.run("conductor", "--name", "other")
    site.provision(node, "provide", "available")
    site.stop()
    for missing in ("permission denied", "InsufficientPrivilege"):
        assert missing not in site.text()


def test_an_upgrade_without_the_users_names_the_missing_one(
    tmp_path, url, users, postgresql_server
):
    site = Site(tmp_path, None, lambda _role: url)
    with postgresql_server.connect() as session:
        session.execute("ALTER ROLE ingot_beat RENAME TO another")
        try:
            assert 1 == site.run("db", "upgrade", "--grants").wait(PATIENCE)
        finally:
            session.execute("ALTER ROLE another RENAME TO ingot_beat")
    log = (tmp_path / "db.log").read_text()
    assert 'role "ingot_beat" does not exist' in log
    assert "Traceback" not in log


def test_the_printed_statements_give_the_rights(url, users, tmp_path):
    site = Site(tmp_path, None, lambda _role: url)
    assert 0 == site.run("db", "upgrade").wait(PATIENCE)
    printed = programs.run("workers.cli:main", argv=("db", "grants"), environ=site.environ)
    process = subprocess.run(
        [postgresql.find() / "psql", "--set", "ON_ERROR_STOP=1", "--no-psqlrc", url],
        input=printed.out, text=True, capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert 0 == process.returncode, process.stderr
    assert "COMMIT" in process.stdout
