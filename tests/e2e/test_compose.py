"""
The deployment of compose.yaml without a container engine: its commands, environment, secrets and
users, as processes on loopback. Only addresses, ports and paths are those of this machine.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import psycopg
import requests
import yaml

from tests.e2e.roles_alone import LIFE
from tests.support import postgresql, programs
from tests.support.fleet import PATIENCE, ROOT, until
from tests.support.ports import free_port
from tests.support.prerequisites import not_run
from tests.support.redis import program_with_tls

SERVICES = yaml.safe_load((ROOT / "compose/compose.yaml").read_text())["services"]
OURS = ("api", "conductor", "beat", "files")
EXAMPLE = dict(
    line.split("=", 1)
    for line in (ROOT / "compose/.env.example").read_text().splitlines()
    if line.startswith("INGOT_")
)
SECRETS = "/run/secrets"


class Deployment:
    """The services; `places` maps texts of compose.yaml to those of this machine."""

    def __init__(self, folder):
        self.folder = folder
        shutil.copytree(
            ROOT / "compose", folder / "compose", ignore=shutil.ignore_patterns("secrets", ".env")
        )
        subprocess.run([folder / "compose/secrets.sh"], check=True, timeout=60)
        self.secrets = folder / "compose/secrets"
        self.ports = {name: free_port() for name in ("postgres", "redis", "api", "files")}
        self.metrics = {name: free_port() for name in OURS}
        for path in self.secrets.glob("*_url*"):
            text = path.read_text()
            for server, usual_port in (("postgres", 5432), ("redis", 6379)):
                text = text.replace(f"@{server}:{usual_port}/", f"@127.0.0.1:{self.ports[server]}/")
            path.write_text(text)
        (folder / "state").mkdir()
        self.processes = {}

    def here(self, text):
        """A value of compose.yaml with the paths and addresses of this machine."""
        text = str(text).replace(SECRETS, str(self.secrets)).replace("0.0.0.0", "127.0.0.1")
        return text.replace("6385", str(self.ports["api"])).replace(
            "6386", str(self.ports["files"])
        )

    def environment(self, name):
        settings = EXAMPLE | SERVICES[name]["environment"]
        environ = {key: self.here(value) for key, value in settings.items()}
        if "INGOT_METRICS_PORT" in environ:  # each container has addresses of its own
            environ["INGOT_METRICS_PORT"] = str(self.metrics[name])
        inherited = {key: value for key, value in os.environ.items() if "INGOT_" not in key}
        return inherited | environ | {"INGOT_DATA_DIR": str(self.folder / "state")}

    def start(self, name):
        with (self.folder / f"{name}.log").open("w") as log:
            self.processes[name] = programs.start(
                "workers.cli:main", argv=SERVICES[name]["command"],
                environ=self.environment(name), stdout=log, stderr=log,
            )  # fmt: skip
        return self.processes[name]

    def is_healthy(self, name):
        command, *words = SERVICES[name]["healthcheck"]["test"][1:]
        assert "python" == command
        return 0 == subprocess.run(
            [sys.executable, *map(self.here, words)], check=False, timeout=30, stderr=subprocess.DEVNULL
        ).returncode  # fmt: skip

    def log(self):
        return "".join(path.read_text() for path in sorted(self.folder.glob("*.log")))


@contextmanager
def redis_of(deployment):
    command = [deployment.here(word) for word in SERVICES["redis"]["command"][1:]]
    options = [
        "--bind",
        "127.0.0.1",
        "--port",
        str(deployment.ports["redis"]),
        "--dir",
        str(deployment.folder),
    ]
    program = program_with_tls(deployment.folder)
    with (deployment.folder / "redis.log").open("w") as log:
        server = subprocess.Popen([program, *command, *options], stdout=log, stderr=log)
    try:
        yield
    finally:
        server.kill()
        server.wait()


@contextmanager
def postgres_of(deployment):
    """A server with the administrator and the database that the image of PostgreSQL creates."""
    with tempfile.TemporaryDirectory(prefix="ingot-pg-") as folder:
        port = str(deployment.ports["postgres"])
        try:
            command = postgresql.initialised(folder, listen_addresses="127.0.0.1", port=port)
        except postgresql.NoServer as error:
            not_run(str(error))
        rules = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        Path(folder, "data", "pg_hba.conf").write_text(rules)
        with subprocess.Popen(
            command, stderr=subprocess.DEVNULL, cwd="/", **postgresql.as_account()
        ) as server:
            try:
                admin = (
                    f"postgresql:///postgres?host={folder}&port={port}&user={postgresql.ACCOUNT}"
                )
                until(lambda: connected(admin), "PostgreSQL")
                with psycopg.connect(admin, autocommit=True) as session:
                    password = (deployment.secrets / "postgres_password").read_text()
                    session.execute(f"CREATE ROLE ingot SUPERUSER LOGIN PASSWORD '{password}'")
                    session.execute("CREATE DATABASE ingot OWNER ingot")
                yield {"PGHOST": folder, "PGPORT": port}
            finally:
                server.terminate()


def connected(url):
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


def create_users(deployment, server):
    """Run the script that the image of PostgreSQL runs for an empty volume."""
    (mounted,) = (volume for volume in SERVICES["postgres"]["volumes"] if "initdb.d" in volume)
    script = deployment.folder / "compose" / mounted.split(":")[0]
    script.write_text(deployment.here(script.read_text()))
    environ = SERVICES["postgres"]["environment"]
    path = f"{postgresql.find()}:{os.environ['PATH']}"
    subprocess.run(
        ["sh", script],
        check=True,
        timeout=60,
        env={**os.environ, **environ, **server, "PATH": path},
    )


@contextmanager
def deployed(tmp_path):
    deployment = Deployment(tmp_path)
    with redis_of(deployment), postgres_of(deployment) as server:
        for _ in range(2):  # the second time it sets the passwords again
            create_users(deployment, server)
        try:
            assert 0 == deployment.start("migrate").wait(PATIENCE)
            for name in OURS:
                deployment.start(name)
            yield deployment
        except BaseException:
            print(deployment.log()[-6000:])
            raise
        finally:
            for process in deployment.processes.values():
                process.kill()
                process.wait()


def test_the_roles_of_compose_work_together_with_their_own_credentials(tmp_path):
    with deployed(tmp_path) as deployment:
        check(deployment)


def token_of_a_first_user(deployment):
    """Create an administrator by the commands of docs/operations.md; return an API token."""
    for words in (
        ("user", "create", "ann", "--no-password"),
        ("role", "grant", "admin", "--user", "ann", "--system"),
        ("token", "create", "ann", "--system", "-o", "json"),
    ):
        ran = subprocess.run(
            [sys.executable, "-m", "workers.cli", *words], cwd=ROOT, check=True, timeout=5 * PATIENCE,
            env=deployment.environment("migrate"), capture_output=True, text=True,
        )  # fmt: skip
        output = ran.stdout
    return json.loads(output)["token"]


def check(deployment):
    """Take a node through its life, and look at the other servers, and for leaked passwords."""
    until(lambda: deployment.is_healthy("api"), "the API")
    base = f"http://127.0.0.1:{deployment.ports['api']}/v1"
    with requests.Session() as http:
        http.trust_env = False
        http.headers["X-OpenStack-Ironic-API-Version"] = "1.115"
        assert 401 == http.get(f"{base}/nodes", timeout=60).status_code
        http.headers["X-Auth-Token"] = token_of_a_first_user(deployment)

        def ask(method, path, **body):
            answer = http.request(method, f"{base}/{path}", json=body or None, timeout=60)
            assert answer.ok, answer.text
            return answer.json() if answer.content else None

        until(lambda: ask("GET", "conductors")["conductors"], "a conductor")
        node = ask("POST", "nodes", driver="fake-hardware")["uuid"]
        for verb, state in LIFE.items():
            ask("PUT", f"nodes/{node}/states/provision", target=verb)

            def arrived(state=state):
                document = ask("GET", f"nodes/{node}")
                return document["provision_state"] == state and not document["reservation"]

            until(arrived, f"{state}; {deployment.log()[-3000:]}")
        files = f"http://127.0.0.1:{deployment.ports['files']}/no-such-file"
        assert 404 == http.get(files, timeout=30).status_code
        for name in ("api", "conductor", "beat"):
            metrics = http.get(f"http://127.0.0.1:{deployment.metrics[name]}/metrics", timeout=30)
            assert metrics.ok, name
            if name == "beat":
                assert 'ingot_nodes{provision_state="available"} 1.0' in metrics.text
    assert all(
        process.poll() is None for name, process in deployment.processes.items() if name in OURS
    )
    log = deployment.log()
    assert [] == [line for line in log.splitlines() if re.search("permission denied|NOPERM", line)]
    secrets = [path.read_text().strip() for path in deployment.secrets.glob("*password*")]
    assert [] == [secret for secret in secrets if secret in log]
