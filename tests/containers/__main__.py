"""
The containers of compose/, run: `python -m tests.containers` (make compose-test; docs/install.md).

    --keep        leave the containers and their images
    --reuse       use the images of a run with --keep
    --stage NAME  only this stage of STAGES, after those that prepare it; may be repeated

Exit status: 0 each stage has passed, 1 one has failed, 3 NOT RUN: the host lacks something.
"""

import argparse
import fcntl
import sys
import time
import traceback
from pathlib import Path

from tests.containers import engine as podman
from tests.containers import images
from tests.containers.engine import Engine, NotPossible
from tests.containers.site import OURS, Site, kill, until
from tests.support.fleet import ROOT

FOLDER = Path("/var/tmp/ingot-containers")
LOG = ROOT / "build" / "compose-test.log"
NOT_RUN = 3
MACHINES = 4
#: Programs of the test in an environment of their own, as podman-compose pins packages of others.
TOOLS = ("podman-compose==1.6.0",)


class Run:
    """One run; the stages share its site and nodes."""

    def __init__(self, folder, say, *, upgrades):
        self.say, self.upgrades = say, upgrades
        self.engine = Engine(folder, say)
        self.site, self.nodes, self.commit = None, [], None

    # in the order in which they run

    def build(self):
        """Build the images; ours is within its size."""
        images.build(self.engine, self.say)
        images.check_size(self.engine, self.say)

    def start(self):
        """Start the previous release, or this one without the history of the tree; enrol machines."""
        tools = podman.python_tool(self.engine.folder / "tools", *TOOLS)
        self.site = Site(self.engine, tools, self.say)
        if self.upgrades:
            self.commit = images.previous(self.engine, self.say)
        if self.commit:
            self.site.use_image(images.PREVIOUS)
        self.site.start()
        self.site.await_health(postgres=1, redis=1, api=1)
        self.site.sign_in()
        self.site.start_machines(MACHINES)
        self.site.await_conductors(1)
        self.nodes = self.site.enrol()
        self.site.provision(self.nodes, "manage")
        self.site.await_state(self.nodes, "manageable")
        self.site.provision(self.nodes, "provide")
        self.site.await_state(self.nodes, "available")

    def upgrade(self):
        """Upgrade from the previous release with the commands of docs/operations.md; nodes stay."""
        if not self.commit:
            self.say("  NOT RUN: this tree has no history, so there is no previous release")
            return
        before = self.schema()
        self.site.use_image(images.OURS)
        self.site.compose("run", "--rm", "-T", "--no-deps", "migrate")
        assert before != self.schema(), "the previous release has this schema already"
        for service in ("conductor", "api", "beat", "files"):
            self.site.compose(
                "up", "--detach", "--no-build", "--no-deps", "--force-recreate", service
            )
        self.site.await_conductors(1)
        self.site.await_state(self.nodes, "available")
        self.site.command("doctor")

    def schema(self):
        return self.psql("SELECT version_num FROM alembic_version").strip()

    def psql(self, statement, database="ingot"):
        (server,) = self.site.of("postgres")
        words = ("psql", "--username", "ingot", "--dbname", database, "--tuples-only", "--command")
        return self.engine.run("exec", server, *words, statement, quiet=True)

    def health(self):
        """Each role has a health check that passes, and that of a stopped one fails."""
        self.site.await_health(api=1, conductor=1, beat=2, files=1, postgres=1, redis=1)
        for service in OURS:
            container = self.site.of(service)[-1]
            self.engine.run("pause", container, quiet=True)
            try:
                check = self.engine.run("healthcheck", "run", container, check=False, quiet=True)
                assert check.returncode, f"{service} is suspended, and healthy"
            finally:
                self.engine.run("unpause", container, quiet=True)
        self.site.await_health(api=1, conductor=1, beat=2, files=1)

    def lives(self):
        """Deploy the machines, and tear them down."""
        self.site.provision(self.nodes, "active")
        self.site.await_state(self.nodes, "active")
        self.site.provision(self.nodes, "deleted")
        self.site.await_state(self.nodes, "available")

    def scale(self):
        """Three conductors; one is killed during deployments, which all succeed."""
        self.site.start("conductor", conductors=3)
        self.site.await_conductors(3)
        self.site.provision(self.nodes, "active")
        busy = until(self.reserving, "a conductor at work")
        victim = next(name for name in self.site.of("conductor") if self.hostname(name) in busy)
        kill(self.engine, victim)
        self.say(f"  killed {victim}")
        self.site.await_state(self.nodes, "active")
        until(lambda: len(self.site.of("conductor")) == 3, "the restart of the killed container")
        self.site.await_conductors(3)

    def reserving(self):
        rows = [self.site.node(uuid) for uuid in self.nodes]
        return {row["reservation"] for row in rows if row["reservation"]}

    def hostname(self, container):
        return self.engine.run(
            "inspect", "--format", "{{.Config.Hostname}}", container, quiet=True
        ).strip()

    def beats(self):
        """Two beats; the leader is killed, and the other leads."""
        assert len(self.site.of("beat")) == 2
        holder = self.leader()
        victim = next(name for name in self.site.of("beat") if self.hostname(name) == holder)
        kill(self.engine, victim)
        until(lambda: self.leader() not in ("", holder), "another leader")
        self.site.await_health(beat=2)

    def leader(self):
        rows = self.psql("SELECT holder FROM beat_lease WHERE until > now() AT TIME ZONE 'utc'")
        return rows.strip().partition(":")[0]

    def restore(self):
        """Back up, go on, restore: all nodes are in maintenance until an operator ends it."""
        (server,) = self.site.of("postgres")
        backup = self.engine.folder / "backup"
        dump = self.engine.run(
            "exec",
            server,
            "pg_dump",
            "--username",
            "ingot",
            "--format",
            "custom",
            "ingot",
            binary=True,
        )
        backup.write_bytes(dump)
        self.site.provision(self.nodes, "deleted")
        self.site.await_state(self.nodes, "available")
        roles = [name for service in OURS for name in self.site.of(service)]
        self.engine.run("stop", "--time", "70", *roles)
        with backup.open("rb") as file:
            self.engine.run(
                "exec", "--interactive", server, "pg_restore", "--username", "ingot", "--clean",
                "--if-exists", "--single-transaction", "--dbname", "ingot", stdin=file,
            )  # fmt: skip
        self.engine.run("start", *roles)
        self.site.await_conductors(3)
        until(
            lambda: all(self.site.node(uuid)["fault"] == "restored" for uuid in self.nodes),
            lambda: f"the restored database is noticed\n{self.site.logs('conductor')[-3000:]}",
        )
        for uuid in self.nodes:
            self.site.request("DELETE", f"nodes/{uuid}/maintenance")
        self.site.provision(self.nodes, "deleted")
        self.site.await_state(self.nodes, "available")

    def rotate(self):
        """Rotate all passwords and the master key as docs/security.md says; the old ones are refused."""
        secrets = self.site.folder / "secrets"
        old_url = (secrets / "redis_url_conductor").read_text().strip()
        old_password = (secrets / "postgres_password_conductor").read_text()
        for path in secrets.iterdir():
            if path.name.startswith(("redis_", "postgres_password_", "database_url_")):
                path.unlink()
        key = secrets / "master_key"
        new = podman.subprocess.run(
            "head -c 32 /dev/urandom | base64",
            shell=True,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        key.write_text(new + key.read_text())
        self.site.make_secrets()
        self.recreate()
        self.site.command("secrets", "rotate")
        key.write_text(new)
        self.recreate()
        (server,) = self.site.of("postgres")
        refused = self.engine.run(
            "exec", "--env", f"PGPASSWORD={old_password}", server, "psql", "--host", "127.0.0.1",
            "--username", "ingot_conductor", "--dbname", "ingot", "--command", "SELECT 1",
            check=False, quiet=True,
        )  # fmt: skip
        assert "password authentication failed" in refused.stderr, refused
        (redis,) = self.site.of("redis")
        refused = self.engine.run("exec", redis, "redis-cli", "-u", old_url.replace("@redis:", "@127.0.0.1:"),
                                  "llen", "conductor.now", check=False, quiet=True)  # fmt: skip
        assert "WRONGPASS" in refused.stdout + refused.stderr, refused
        self.site.provision(self.nodes, "active")
        self.site.await_state(self.nodes, "active")

    def recreate(self):
        """Create all containers again: a running one keeps the files that it was created with."""
        self.site.compose("down")
        self.site.start("postgres", "redis")
        self.site.await_health(postgres=1, redis=1)
        (server,) = self.site.of("postgres")
        self.engine.run("exec", server, "sh", "/docker-entrypoint-initdb.d/users.sh")
        self.site.start(conductors=3)
        self.site.await_conductors(3)

    def logs(self):
        """No role was refused by PostgreSQL or Redis, and no password is in a log."""
        passwords = [
            path.read_text().strip() for path in (self.site.folder / "secrets").glob("*password*")
        ]
        for service in (*OURS, "postgres", "redis"):
            text = self.site.logs(service)
            for words in ("permission denied", "NOPERM", "Traceback"):
                lines = [line for line in text.splitlines() if words in line]
                assert not lines, f"{service}: {lines[:3]}"
            assert not [password for password in passwords if password in text], service


STAGES = (
    "build", "start", "upgrade", "health", "lives", "scale", "beats", "restore", "rotate", "logs",
)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.containers")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--reuse", action="store_true")
    parser.add_argument("--stage", action="append", choices=STAGES)
    given = parser.parse_args()
    chosen = {"build", "start", *(given.stage or STAGES)} - ({"build"} if given.reuse else set())
    stages = [name for name in STAGES if name in chosen]
    LOG.parent.mkdir(exist_ok=True)
    with LOG.open("w") as file:

        def say(line):
            line = f"{time.strftime('%H:%M:%S')} {line}"
            print(line, flush=True)
            print(line, file=file, flush=True)

        try:
            podman.prepare()
        except NotPossible as error:
            say(f"NOT RUN: {error}")
            return NOT_RUN
        FOLDER.mkdir(parents=True, exist_ok=True)
        with (FOLDER.parent / f"{FOLDER.name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                say("NOT RUN: another run is going on")
                return NOT_RUN
            # remains of a run that was killed or kept
            Engine(FOLDER, say).remove(images=not given.reuse)
            return _run(stages, say, given.keep)


def _run(stages, say, keep):
    run, failed = Run(FOLDER, say, upgrades="upgrade" in stages), False
    try:
        for name in stages:
            method = getattr(run, name)
            say(f"{name}: {method.__doc__}")
            begun = time.monotonic()
            method()
            say(f"{name}: passed, {time.monotonic() - begun:.0f} s")
    except NotPossible as error:
        say(f"NOT RUN: {error}")
        return NOT_RUN
    except Exception:
        failed = True
        say(f"FAILED\n{traceback.format_exc()}")
    finally:
        if not keep:
            run.engine.remove()
    say(f"{0 if failed else len(stages)} passed, {int(failed)} failed")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
