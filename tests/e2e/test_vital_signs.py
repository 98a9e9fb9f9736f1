"""Each role tells systemd and probes that it is ready, works, and stops; and has its own log file."""

import json
import signal
import urllib.error
import urllib.request
from contextlib import ExitStack

import pytest

from tests.e2e.roles_alone import Site
from tests.support import programs
from tests.support import redis as own_redis
from tests.support.fleet import PATIENCE, ROOT, until
from tests.support.ports import free_port
from tests.support.systemd import Systemd

ROLES = ("api", "conductor", "beat", "files")
#: Role -> beginning of its status while it works.
WORKS = {
    "api": "STATUS=serves 127.0.0.1:", "conductor": "STATUS=0 steps in progress",
    "beat": "STATUS=leads", "files": "STATUS=serves /",
}  # fmt: skip


class Watched:
    """A role, its systemd, and its port for probes."""

    def __init__(self, site, role):
        self.role, self.port = role, free_port()
        self.systemd = Systemd(str(site.folder / f"{role}.socket"))
        self.messages = []
        variables = {
            "INGOT_METRICS_PORT": str(self.port), "INGOT_DEPLOY_HTTP_PORT": str(self.port),
            "INGOT_LOG_DIR": str(site.folder / "logs"), "WATCHDOG_USEC": "180000000",
            "INGOT_DATABASE_CONNECTION": site.database(role), "INGOT_BROKER_URL": site.broker(role),
        }  # fmt: skip
        if role == "files":
            del variables["INGOT_METRICS_PORT"]
        with (site.folder / f"{role}.log").open("w") as log:
            self.process = programs.start(
                "workers.cli:main", argv=[role], cwd=ROOT, stdout=log, stderr=log,
                environ=site.environ | variables | self.systemd.environ,
            )  # fmt: skip

    def heard(self):
        self.messages += self.systemd.heard()
        return [line for message in self.messages for line in message]

    def works(self):
        lines = self.heard()
        return {"READY=1", "WATCHDOG=1"} <= set(lines) and any(
            line.startswith(WORKS[self.role]) for line in lines
        )

    def probe(self, path):
        url = f"http://127.0.0.1:{self.port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code


@pytest.fixture
def site(tmp_path):
    with own_redis.serving(tmp_path) as port:
        site = Site(tmp_path, lambda _role: f"redis://127.0.0.1:{port}/0")
        assert 0 == site.run("db", "upgrade").wait(PATIENCE)
        yield site


def test_each_role_says_when_it_is_ready_works_and_stops(site):
    with ExitStack() as stack:
        watched = []
        for role in ROLES:
            watched.append(Watched(site, role))
            stack.callback(watched[-1].systemd.close)
            stack.callback(watched[-1].process.kill)
        for service in watched:
            until(
                service.works,
                f"{service.role}; {(site.folder / f'{service.role}.log').read_text()}",
            )
            assert ["STATUS=starts"] == service.messages[0], "before anything else"
            if service.role == "files":
                assert 204 == service.probe("/")
            else:
                assert (200, 200) == (service.probe("/alive"), service.probe("/ready"))
            assert "WATCHDOG=1" not in str(
                service.messages[: service.messages.index(ready(service))]
            )
        for service in watched:
            service.process.send_signal(signal.SIGTERM)
        for service in watched:
            assert 0 == service.process.wait(PATIENCE), service.role
            assert "STOPPING=1" in service.heard(), service.role
    for role in ROLES:
        lines = (site.folder / "logs" / f"ingot-{role}.log").read_text().splitlines()
        assert lines, role
        assert {json.loads(line)["level"] for line in lines} <= {"info", "warning"}
        assert '"event"' not in (site.folder / f"{role}.log").read_text(), "the file has them all"


def ready(role):
    """The message that says that a role is ready; it says so once."""
    (message,) = (message for message in role.messages if "READY=1" in message)
    return message
