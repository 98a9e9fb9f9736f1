"""Each role alone, on a Redis with TLS, as the user that compose/redis-users.acl gives it."""

import hashlib
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
import requests
import yaml
from kombu import pools

from app.broker import breakers, queue, redis_broker
from app.config.settings import load
from tests.e2e.roles_alone import LIFE, ROLES, Site
from tests.support import debian, tls
from tests.support import redis as own_redis
from tests.support.fleet import ROOT, until
from tests.support.ports import free_port
from tests.support.prerequisites import not_run

USERS = ROOT / "compose" / "redis-users.acl"


def users_file(folder):
    """Write the users of compose, and an admin; a password is the user's name. Return the path."""
    text = USERS.read_text()
    for role in (*ROLES, "flower"):
        text = text.replace(f"{role.upper()}_PASSWORD", hashlib.sha256(role.encode()).hexdigest())
    path = folder / "users.acl"
    path.write_text(f"{text}user admin on >admin allcommands allkeys allchannels\n")
    return str(path)


@pytest.fixture
def port(tmp_path):
    """Port of a Redis with TLS only, and the users of `users_file`."""
    users = users_file(tmp_path)
    certificate, key = tls.certificate(tmp_path, "redis")
    tls.certificate(tmp_path, "stranger")
    with own_redis.serving(
        tmp_path, program=own_redis.program_with_tls(tmp_path), port="0", tls=True,
        aclfile=users, tls_cert_file=str(certificate),
        tls_key_file=str(key), tls_auth_clients="no",
    ) as redis_port:  # fmt: skip
        yield redis_port


def url(tmp_path, port, role, authority="redis"):
    return f"rediss://{role}:{role}@127.0.0.1:{port}/0?ssl_ca_certs={tmp_path}/{authority}.crt"


@contextmanager
def site_on(tmp_path, port, **settings):
    site = Site(tmp_path, lambda role: url(tmp_path, port, role))
    site.environ |= settings
    try:
        site.start()
        yield site
    except BaseException:
        print("refused:", refused(tmp_path, port), site.text()[-3000:])
        raise
    finally:
        site.kill()


def admin(tmp_path, port):
    return redis.Redis.from_url(url(tmp_path, port, "admin"))


def refused(tmp_path, port):
    """Commands that Redis has refused to a user, from its log."""
    return [
        (entry["username"], entry["reason"], entry["object"])
        for entry in admin(tmp_path, port).acl_log()
    ]


def test_roles_need_no_more_than_their_users_may(tmp_path, port):
    with site_on(tmp_path, port) as site:
        node = site.request("POST", "nodes", driver="fake-hardware").json()["uuid"]
        for verb, state in LIFE.items():
            site.provision(node, verb, state)
        site.request("PUT", f"nodes/{node}/management/boot_device", boot_device="pxe")
        assert (
            "pxe"
            == site.request("GET", f"nodes/{node}/management/boot_device").json()["boot_device"]
        )
        site.request("POST", "allocations", resource_class="x")
        site.http.get(f"{site.base}/v1/lookup?addresses=52:54:00:00:00:01", timeout=60)
        site.request("GET", f"nodes/{node}/why")
        time.sleep(1)  # some passes of the reconciler and of the witness
        lost = site.processes[1]
        lost.kill()  # the beat records it
        until(lambda: "conductor.lost" in site.text(), "the record of the loss")
        site.processes[1] = site.run("conductor", "--name", "other")
        site.request("PUT", f"nodes/{node}/states/provision", target="manage")
        until(
            lambda: "manageable" == site.request("GET", f"nodes/{node}").json()["provision_state"]
        )
        site.stop()
        assert [] == refused(tmp_path, port)
        for missing in ("broker.unreachable", "NOPERM"):
            assert missing not in site.text()


@contextmanager
def flower_on(tmp_path, port, password="secret"):
    """Run Flower with the entrypoint of compose; yield its process and its URL."""
    flower_port, secrets = free_port(), tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "redis_url_flower").write_text(url(tmp_path, port, "flower"))
    (secrets / "flower_password").write_text(password)
    service = yaml.safe_load((ROOT / "compose/compose.yaml").read_text())["services"]["flower"]
    command = [
        word.replace("$$", "$").replace("/run/secrets", str(secrets)).replace("0.0.0.0", "127.0.0.1")
        .replace("5555", str(flower_port))
        for word in service["entrypoint"]
    ]  # fmt: skip
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with (tmp_path / "flower.log").open("w") as log:
        process = subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=log, stderr=log)
        try:
            yield process, f"http://127.0.0.1:{flower_port}"
        finally:
            process.kill()
            process.wait()


def answer_of(address, **options):
    """Flower's response; None while it does not answer."""
    try:
        return requests.get(address, timeout=10, **options)
    except requests.ConnectionError:
        return None


def test_flower_shows_steps_and_conductors_to_its_user_only(tmp_path, port):
    settings = {"INGOT_BROKER_EVENTS": "true", "INGOT_BROKER_REMOTE_CONTROL": "true"}
    with site_on(tmp_path, port, **settings) as site, flower_on(tmp_path, port) as (_, flower):
        until(lambda: answer_of(flower) is not None, "Flower")
        for path in ("/", "/workers", "/tasks", "/broker", "/api/workers", "/api/tasks"):
            for login in (None, ("ingot", "wrong"), ("ingot", ""), ("", "secret")):
                assert 401 == answer_of(flower + path, auth=login).status_code, path

        def read(path):
            answer = answer_of(flower + path, auth=("ingot", "secret"))
            return answer.json() if answer.ok else {}

        until(lambda: read("/api/workers?refresh=1"), "a worker")
        assert any(name.startswith("conductor@") for name in read("/api/workers"))
        node = site.request("POST", "nodes", driver="fake-hardware").json()["uuid"]
        site.provision(node, "manage", "manageable")
        (operation,) = site.request("GET", f"nodes/{node}/operations").json()["operations"]
        steps = site.request("GET", f"operations/{operation['uuid']}").json()["steps"]
        names = {f"{step['interface']}.{step['step']}" for step in steps}
        until(lambda: names <= {task["name"] for task in read("/api/tasks").values()}, "the steps")
        assert answer_of(f"{flower}/broker", auth=("ingot", "secret")).ok
        site.stop()
        assert [] == refused(tmp_path, port)


@pytest.mark.parametrize("password", ["", None])
def test_flower_without_a_password_does_not_start(tmp_path, port, password):
    with flower_on(tmp_path, port, password or "") as (process, flower):
        if password is None:
            (tmp_path / "secrets/flower_password").unlink(missing_ok=True)
        assert process.wait(60)
        assert answer_of(flower) is None


@pytest.mark.parametrize(
    ("user", "command"),
    [
        ("health", ("GET", "ingot:epoch")),
        ("api", ("BRPOP", "conductor.c-1", 1)),
        ("api", ("GET", "ingot:watermark")),
        ("api", ("CONFIG", "GET", "*")),
        ("api", ("PUBLISH", "/0.celery.pidbox", "x")),
        ("conductor", ("KEYS", "*")),
        ("conductor", ("SET", "another", "x")),
        ("conductor", ("CONFIG", "SET", "dir", "/")),
        ("conductor", ("EVAL", "return redis.call('SET', 'another', 'x')", 0)),
        ("beat", ("LPUSH", "conductor.c-1", "x")),
        ("beat", ("SET", "ingot:question:x", "y")),
        ("flower", ("LPUSH", "conductor.c-1", "x")),
        ("flower", ("LRANGE", "conductor.c-1", 0, -1)),
        ("flower", ("DEL", "conductor.c-1")),
        ("flower", ("GET", "ingot:epoch")),
        ("flower", ("PUBLISH", "another", "x")),
        ("flower", ("CONFIG", "GET", "*")),
    ],
)
def test_a_user_may_do_no_more(tmp_path, port, user, command):
    with (
        redis.Redis.from_url(url(tmp_path, port, user)) as client,
        pytest.raises(redis.RedisError, match=r"(?i)permission|NOPERM|can't access"),
    ):
        client.execute_command(*command)


@pytest.mark.parametrize("name", ["", "default"])
def test_no_client_is_the_default_user(tmp_path, port, name):
    broker = url(tmp_path, port, name).replace("//:@", "//")
    with redis.Redis.from_url(broker) as client, pytest.raises(redis.AuthenticationError):
        client.ping()


def test_the_transactions_of_a_role_outlive_a_restart_of_redis_7(tmp_path):
    folder = debian.unpacked("redis-server", "redis-tools")
    if folder is None:
        not_run("Debian's redis-server")

    settings = {
        "program": folder / "usr/bin/redis-server", "aclfile": users_file(tmp_path),
        "appendonly": "yes", "appendfsync": "always",
    }  # fmt: skip

    def client(port):
        return redis.Redis(port=port, username="admin", password="admin")

    with own_redis.serving(tmp_path, **settings) as port, client(port) as admin:
        changes = admin.pipeline(transaction=True)
        changes.lpush("conductor.c-1", "message").sadd("_kombu.binding.x", "queue").execute()
    with own_redis.serving(tmp_path, **settings) as port, client(port) as admin:
        assert {b"conductor.c-1", b"_kombu.binding.x"} == set(admin.keys("*"))


def test_a_server_with_another_certificate_is_refused_by_both_clients(tmp_path, port):
    """Celery's client verifies it, too, also if the URL does not ask for that."""
    good, bad = (url(tmp_path, port, "api", name) for name in ("redis", "stranger"))
    unverified = f"rediss://api:api@127.0.0.1:{port}/0"
    for broker in (bad, unverified):
        with pytest.raises(redis.ConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
            redis_broker.client(broker, 2).ping()
        assert not sent(broker)
    assert redis_broker.client(good, 2).ping()
    assert sent(good)


def sent(broker):
    """Whether Celery publishes a message."""
    with queue.celery(
        load({"INGOT_BROKER_URL": broker, "INGOT_BROKER_CONNECT_TIMEOUT": "2"})
    ) as application:
        try:
            queue.send_task(application, "ingot.ask", (), "conductor.x")
        except breakers.FAILURES:
            return False
        finally:
            pools.reset()  # Kombu shares connections of URLs that differ in their parameters only
        return True
