"""
The service of compose/ in containers, installed and operated by the commands of docs/containers.md.

    python -m tests.containers [--keep]     # make compose-test

--keep: leave the containers, and their images for the next run.
Exit status: 0 each stage has passed, 1 one has failed, 3 NOT RUN: the host lacks something.
"""

import argparse
import fcntl
import sys
import time
import traceback
from pathlib import Path

from tests.containers import images
from tests.containers.podman import NotPossible, Podman, prepare
from tests.containers.site import PASSWORD, ROLES, Site, releases, until
from tests.support.fleet import ROOT

FOLDER = Path("/var/tmp/ingot-containers")
LOG = ROOT / "build" / "compose-test.log"
NOT_RUN = 3
MACHINES = 4


class Run:
    """The stages, in the order in which they run: each goes on with the service of the one before."""

    def __init__(self, podman):
        self.podman, self.say = podman, podman.say
        self.commit, self.previous = releases()
        podman.install_compose()
        self.site = Site(podman)
        self.backup = None

    def start(self):
        """Install the release before this one, with machines that are available"""
        images.make(self.podman)
        self.site.check_out(self.previous, compose_file=self.commit)
        self.say(f"  commit {self.previous[:8]}")
        self.site.follow("Settings")
        self.site.configure()
        self.site.follow("Start")
        self.site.await_health(postgres=1, redis=1, api=1)
        self.site.follow("The first user", answer=PASSWORD)
        self.site.sign_in()
        self.site.start_machines(MACHINES, images.OURS)
        self.site.await_conductors(1)
        self.site.enrol()
        for verb, state in (("manage", "manageable"), ("provide", "available")):
            self.site.order(verb)
            self.site.await_state(state)

    def upgrade(self):
        """Upgrade to this release, which has another schema and fits its size"""
        schema = self.site.query("SELECT version_num FROM alembic_version")
        self.site.check_out(self.commit)
        self.site.follow("Upgrade")
        assert schema != self.site.query("SELECT version_num FROM alembic_version")
        self.site.await_conductors(1)
        self.site.await_state("available")
        compressed, on_disk = images.measure(self.podman, images.OURS)
        self.say(f"  the image has {compressed:.0f} MB compressed, {on_disk:.0f} MB on a disk")

    def health(self):
        """Check the health of each role; it is bad while the role hangs"""
        self.site.await_health(api=1, conductor=1, beat=2, files=1, postgres=1, redis=1)
        for service in ROLES:
            container = self.podman.running(service)[-1]
            with self.podman.suspended(container):
                assert not self.podman.is_healthy(container), f"{service} hangs, and is healthy"
        self.site.await_health(api=1, conductor=1, beat=2, files=1)

    def life(self):
        """Deploy the machines, and tear them down"""
        for verb, state in (("active", "active"), ("deleted", "available")):
            self.site.order(verb)
            self.site.await_state(state)

    def conductors(self):
        """Run three conductors, and kill one during deployments, which all succeed"""
        self.site.follow("More conductors")
        self.site.set(CONDUCTORS=3)
        self.site.await_conductors(3)
        self.site.order("active")

        def busy():
            reservations = {node["reservation"] for node in self.site.nodes()}
            return [
                name
                for name in self.podman.running("conductor")
                if self.podman.fact(name, "{{.Config.Hostname}}") in reservations
            ]

        self.site.kill(until(busy, lambda: "a conductor at work")[0])
        self.site.await_state("active")
        self.site.await_health(conductor=3)
        self.site.await_conductors(3)

    def beats(self):
        """Kill the beat that leads: the other one leads, and it comes back"""
        leader = self.leader()
        (victim,) = (
            name
            for name in self.podman.running("beat")
            if self.podman.fact(name, "{{.Config.Hostname}}") == leader
        )
        self.site.kill(victim)
        until(lambda: self.leader() not in ("", leader), lambda: "another leader")
        self.site.await_health(beat=2)

    def leader(self):
        """Host name of the beat that leads; empty if none does."""
        statement = "SELECT holder FROM beat_lease WHERE until > now() AT TIME ZONE 'utc'"
        return self.site.query(statement).partition(":")[0]

    def restore(self):
        """Back up, go on, restore: all nodes are in maintenance until an operator ends it"""
        self.site.follow("Backup")
        self.site.order("deleted")
        self.site.await_state("available")
        self.site.follow("Restore")
        self.site.await_conductors(3)
        until(
            lambda: all(node["fault"] == "restored" for node in self.site.nodes()),
            lambda: self.podman.logs("conductor")[-3000:],
        )
        for node in self.site.nodes():
            assert node["provision_state"] == "active", "the state of the backup"
            self.site.request("DELETE", f"nodes/{node['uuid']}/maintenance")
        self.site.order("deleted")
        self.site.await_state("available")

    def secrets(self):
        """Replace all passwords and the master key; the old ones are refused"""
        folder = self.site.folder / "secrets"
        files = {path.name: path.read_text() for path in folder.iterdir()}
        self.site.follow("New passwords")
        self.site.await_health(postgres=1, redis=1, api=1, conductor=3, beat=2)
        self.site.follow("A new master key")
        same = [path.name for path in folder.iterdir() if path.read_text() == files[path.name]]
        assert not same, f"these secrets are not new: {same}"
        (server,) = self.podman.running("postgres")
        for user in ("ingot", "ingot_api", "ingot_conductor", "ingot_beat"):
            password = files["postgres_password" + user.removeprefix("ingot")]
            done = self.podman.run(
                "exec", "--env", f"PGPASSWORD={password}", server, "psql", "--host", "127.0.0.1",
                "--username", user, "--dbname", "ingot", "--command", "SELECT 1", check=False,
            )  # fmt: skip
            assert "password authentication failed" in done.stderr, (user, done)
        (server,) = self.podman.running("redis")
        for role in ("api", "conductor", "beat"):
            url = files[f"redis_url_{role}"].strip().replace("@redis:", "@127.0.0.1:")
            done = self.podman.run("exec", server, "redis-cli", "-u", url, "ping", check=False)
            assert "WRONGPASS" in done.stdout + done.stderr, (role, done)
        self.life()

    def logs(self):
        """Read the logs: no role was refused by PostgreSQL or Redis, no exception, no password"""
        secrets = [
            path.read_text().strip() for path in (self.site.folder / "secrets").glob("*password*")
        ]
        for service in (*ROLES, "postgres", "redis"):
            text = self.podman.logs(service)
            for words in ("permission denied", "NOPERM", "Traceback", *secrets):
                lines = [line for line in text.splitlines() if words in line]
                assert not lines, f"{service}: {lines[:3]}"


STAGES = (
    Run.start, Run.upgrade, Run.health, Run.life, Run.conductors, Run.beats, Run.restore, Run.secrets, Run.logs,
)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.containers")
    parser.add_argument("--keep", action="store_true")
    keep = parser.parse_args().keep
    LOG.parent.mkdir(exist_ok=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    with LOG.open("w") as file, FOLDER.with_suffix(".lock").open("w") as lock:

        def say(line):
            line = f"{time.strftime('%H:%M:%S')} {line}"
            print(line, flush=True)
            print(line, file=file, flush=True)

        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("NOT RUN: another run is going on")
            return NOT_RUN
        try:
            prepare()
            podman = Podman(FOLDER, say)
            podman.remove(images=False)  # remains of a run that was killed or kept
            try:
                return run(podman)
            finally:
                if not keep:
                    podman.remove(images=True)
        except NotPossible as error:
            say(f"NOT RUN: {error}")
            return NOT_RUN


def run(podman):
    """Run the stages; return the exit status."""
    begun = time.monotonic()
    stages = Run(podman)
    for stage in STAGES:
        podman.say(f"{stage.__name__}: {stage.__doc__}")
        try:
            stage(stages)
        except NotPossible:
            raise
        except Exception:
            podman.say(f"{stage.__name__}: FAILED\n{traceback.format_exc()}")
            return 1
    podman.say(f"{len(STAGES)} stages passed in {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
