"""Each role alone, as a process with credentials of its own."""

import os
import signal
import subprocess
import sys

import requests

from tests.support import programs
from tests.support.fleet import PATIENCE, QUICK, ROOT, until
from tests.support.ports import free_port

ROLES = ("api", "conductor", "beat")
#: Verbs of a node's life -> the state that each leads to.
LIFE = {
    "manage": "manageable", "inspect": "manageable", "provide": "available",
    "active": "active", "deleted": "available",
}  # fmt: skip


class Site:
    """
    Roles as separate processes; all requests of the test go to the API.

    broker, database: role -> the URL that it uses; "owner": that of the tables' owner.
    """

    def __init__(self, tmp_path, broker, database=None):
        self.broker = broker
        self.database = database or (lambda _role: f"sqlite:///{tmp_path}/ingot.db")
        self.base = f"http://127.0.0.1:{free_port()}"
        self.http = requests.Session()
        self.http.trust_env = False
        self.http.headers["X-OpenStack-Ironic-API-Version"] = "1.115"
        (tmp_path / "data").mkdir()
        self.environ = {
            **os.environ, **QUICK,
            "INGOT_API_PORT": self.base.rpartition(":")[2], "INGOT_DATA_DIR": str(tmp_path / "data"),
            "INGOT_DEPLOY_HTTP_URL": self.base, "INGOT_BROKER_CONNECT_TIMEOUT": "30",
        }  # fmt: skip
        self.folder, self.processes = tmp_path, []
        #: Role -> variables that an interpreter or its loader reads when it starts.
        self.preloads = {}

    def run(self, *words):
        role = words[0]
        variables = {"INGOT_DATABASE_CONNECTION": self.database("owner" if role == "db" else role)}
        if role != "db":
            variables["INGOT_BROKER_URL"] = self.broker(role)
        with (self.folder / f"{role}.log").open("a") as log:
            if role in self.preloads:
                return subprocess.Popen(
                    [sys.executable, "-m", "workers.cli", *words], cwd=ROOT, stderr=log, stdout=log,
                    env=self.environ | variables | self.preloads[role],
                )  # fmt: skip
            return programs.start(
                "workers.cli:main", argv=words, environ=self.environ | variables, stderr=log, stdout=log,
            )  # fmt: skip

    def start(self, *upgrade):
        upgraded = self.run("db", "upgrade", *upgrade).wait(PATIENCE)
        assert 0 == upgraded, (self.folder / "db.log").read_text()
        self.processes = [self.run(role) for role in ROLES]
        until(self.conductors, "a conductor")

    def conductors(self):
        try:
            return self.request("GET", "conductors").json()["conductors"]
        except requests.ConnectionError:
            return None

    def request(self, method, path, **body):
        answer = self.http.request(method, f"{self.base}/v1/{path}", json=body or None, timeout=60)
        assert answer.ok, answer.text
        return answer

    def provision(self, node, verb, state):
        self.request("PUT", f"nodes/{node}/states/provision", target=verb)

        def arrived():
            document = self.request("GET", f"nodes/{node}").json()
            return document["provision_state"] == state and not document["reservation"]

        until(arrived, f"{state}; {self.text()[-3000:]}")

    def text(self):
        return "".join((self.folder / f"{role}.log").read_text() for role in ROLES)

    def stop(self):
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(PATIENCE)

    def kill(self):
        for process in self.processes:
            process.kill()
            process.wait()
