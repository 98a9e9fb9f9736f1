"""The stages of the run: each continues with the service that the stage before it has left."""

import signal

from tests.containers import images
from tests.containers.podman import signal_all
from tests.containers.site import PASSWORD, ROLES, Site, releases, until

MACHINES = 4


class Stages:
    """The service of a site, from its installation to its logs. Raises NotPossible without the history."""

    def __init__(self, podman):
        self.podman, self.say = podman, podman.say
        self.commit, self.previous = releases()
        podman.install_compose()
        self.site = Site(podman)

    def all(self):
        """Return the stages in their order."""
        return (
            self.start, self.upgrade, self.health, self.life, self.conductors, self.beats, self.restore, self.secrets,
            self.logs,
        )  # fmt: skip

    def start(self):
        """Install the release before this one, with machines that are available"""
        images.make(self.podman)
        self.site.check_out(self.previous)
        self.say(f"  commit {self.previous[:8]}")
        self.site.follow("Settings")
        self.site.configure()
        self.site.follow("Start")
        self.site.await_health(postgres=1, redis=1, api=1)
        self.site.follow("The first user", answer=PASSWORD)
        self.site.sign_in()
        self.site.start_machines(MACHINES)
        self.site.await_conductors(1)
        self.site.enrol()
        for verb, state in (("manage", "manageable"), ("provide", "available")):
            self.site.order(verb)
            self.site.await_state(state)

    def upgrade(self):
        """Upgrade to this release, which has another schema; its image is complete and not too large"""
        schema = self.site.query("SELECT version_num FROM alembic_version")
        self.site.check_out(self.commit)
        self.site.follow("Upgrade")
        self.site.checks_logs = True  # from now on they are of this release
        assert schema != self.site.query("SELECT version_num FROM alembic_version")
        self.site.await_health(api=1, conductor=1, beat=2, files=1, postgres=1, redis=1)
        self.site.await_conductors(1)
        self.site.follow("Check")
        self.site.await_state("available")
        images.check_contents(self.podman)
        compressed, on_disk = images.measure(self.podman)
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
        processes = {
            self.podman.host_name(name): self.podman.processes(name)
            for name in self.podman.running("conductor")
        }
        self.site.order("active")
        victim = until(lambda: self.busy_conductor(processes), lambda: "no node is reserved")
        signal_all(processes[victim], signal.SIGKILL)
        self.say(f"  killed conductor {victim} at work")
        self.site.await_state("active")
        self.site.await_health(conductor=3)
        self.site.await_conductors(3)

    def busy_conductor(self, processes):
        """Suspend a conductor while it has reserved a node; return its host name. None if all are idle."""
        for uuid in self.site.uuids():
            if host := self.site.reservation(uuid):
                signal_all(processes[host], signal.SIGSTOP)
                if self.site.reservation(uuid) == host:
                    return host
                signal_all(processes[host], signal.SIGCONT)
        return None

    def beats(self):
        """Suspend the beat that leads: the other one takes over, and keeps the lead until it is killed"""
        names = {self.podman.host_name(name): name for name in self.podman.running("beat")}
        holder = until(self.leader, lambda: "no beat leads")
        (standby,) = set(names) - {holder.partition(":")[0]}
        suspended = names[holder.partition(":")[0]]
        with self.podman.suspended(suspended):
            holder = until(
                lambda: (new := self.leader()).startswith(standby) and new, self.beat_logs
            )
            self.say(f"  {names[standby]} leads instead of {suspended}")
        self.site.await_health(beat=2)
        assert holder == self.leader(), "a beat that was suspended leads again"
        self.podman.kill(names[standby])
        until(lambda: self.leader() not in ("", holder), self.beat_logs)
        self.site.await_health(beat=2)

    def beat_logs(self):
        return self.podman.logs("beat")[-3000:]

    def leader(self):
        """Holder of the beats' lease, HOST:PID:UUID; empty if no beat leads."""
        return self.site.query(
            "SELECT holder FROM beat_lease WHERE until > now() AT TIME ZONE 'utc'"
        )

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
        """Replace all passwords and the master key; the old ones are refused, and machines are deployed"""
        folder = self.site.folder / "secrets"
        old = {path.name: path.read_text() for path in folder.iterdir()}
        self.site.follow("New passwords")
        self.site.await_health(postgres=1, redis=1, api=1, conductor=3, beat=2)
        self.site.follow("A new master key")
        unchanged = [name for name, text in old.items() if (folder / name).read_text() == text]
        assert not unchanged, f"these secrets are not new: {unchanged}"
        (server,) = self.podman.running("postgres")
        for user in ("ingot", "ingot_api", "ingot_conductor", "ingot_beat"):
            password = old["postgres_password" + user.removeprefix("ingot")]
            _, answer = self.podman.answer(
                "exec", "--env", f"PGPASSWORD={password}", server, "psql", "--host", "127.0.0.1",
                "--username", user, "--dbname", "ingot", "--command", "SELECT 1",
            )  # fmt: skip
            assert "password authentication failed" in answer, (user, answer)
        (server,) = self.podman.running("redis")
        for role in ("api", "conductor", "beat"):
            url = old[f"redis_url_{role}"].strip().replace("@redis:", "@127.0.0.1:")
            _, answer = self.podman.answer("exec", server, "redis-cli", "-u", url, "ping")
            assert "WRONGPASS" in answer, (role, answer)
        self.life()

    def logs(self):
        """Check the logs, which were also checked before containers were removed"""
        self.site.check_logs()
