"""
Podman, as Debian packages it, with its images, containers, volumes and networks in one folder.

The runtime is runc, which works where namespaces are nested and limits may not be raised. Other images and
containers of the host are neither seen nor changed.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.fleet import ROOT

PACKAGES = ("podman", "runc", "netavark", "aardvark-dns", "iptables", "debootstrap")
#: podman-compose and what it requires.
REQUIREMENTS = ROOT / "requirements" / "containers.txt"
#: Files of the name server: its pid, and one for each network.
NAME_SERVER, NETWORK = Path("/run/containers/networks/aardvark-dns"), "ingot_default"
#: Seconds after which a command has hung.
PATIENCE = 1800
CONTAINERS = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
network_config_dir = "{folder}/networks"
"""
STORAGE = """\
[storage]
driver = "{driver}"
graphroot = "{folder}/storage"
runroot = "{folder}/run"
"""
REGISTRIES = 'unqualified-search-registries = ["docker.io"]\nshort-name-mode = "disabled"\n'
#: `docker compose` of the page is podman-compose. A build uses the network and the proxy's certificates of the host.
DOCKER = """\
#!/bin/sh
shift
exec {folder}/tools/bin/podman-compose --podman-build-args '{build}' "$@"
"""
#: Podman does not start a container that requires an ended one which requires a running one, as the roles require
#: `migrate` (podman-compose issue 1265). podman-compose keeps the order of starts without these requirements, too.
PODMAN = """\
#!/bin/sh
for word; do
    shift
    case $word in --requires=*) ;; *) set -- "$@" "$word" ;; esac
done
exec /usr/bin/podman "$@"
"""
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


class NotPossible(Exception):
    """This host cannot run the containers; the message says what it lacks."""


class Failed(AssertionError):
    """A command has failed; the message has its output."""


def prepare():
    """Install Podman. Raises NotPossible."""
    if os.geteuid():
        raise NotPossible("it needs root, for Podman's networks: try sudo make compose-test")
    if not shutil.which("apt-get"):
        raise NotPossible(f"it needs Debian's packages {', '.join(PACKAGES)}")
    installed = subprocess.run(
        ["dpkg-query", "--show", *PACKAGES], check=False, capture_output=True, timeout=60
    )
    if installed.returncode == 0:
        return
    for words in (("update", "-q"), ("install", "-qy", "--no-install-recommends", *PACKAGES)):
        process = subprocess.run(
            ["apt-get", *words], check=False, capture_output=True, text=True, timeout=PATIENCE,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        )  # fmt: skip
        if process.returncode:
            raise NotPossible(f"apt-get {words[0]}: {process.stderr.strip()[-500:]}")


class Podman:
    """
    Podman and podman-compose with their files in a folder.

    say: receives a line for each command.
    """

    def __init__(self, folder, say):
        self.folder, self.say = folder, say
        for name in ("networks", "bin"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        build = "--network=host"
        if Path(CERTIFICATES).exists():
            (folder / "pip.conf").write_text(f"[global]\ncert = {CERTIFICATES}\n")
            build += f" --volume={CERTIFICATES}:{CERTIFICATES}:ro --volume={folder}/pip.conf:/etc/pip.conf:ro"
        self.build_options = build.split()
        places = {"folder": folder, "driver": _driver(folder), "build": build}
        for name, text in {
            "containers.conf": CONTAINERS, "storage.conf": STORAGE, "registries.conf": REGISTRIES,
            "bin/docker": DOCKER, "bin/podman": PODMAN,
        }.items():  # fmt: skip
            (folder / name).write_text(text.format(**places))
        for path in (folder / "bin").iterdir():
            path.chmod(0o755)
        self.environ = {
            **os.environ,
            "PATH": f"{folder}/bin:{os.environ['PATH']}",
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
            "CONTAINERS_REGISTRIES_CONF": str(folder / "registries.conf"),
        }

    def install_compose(self):
        """Install podman-compose in an environment of its own. Raises NotPossible."""
        tools = self.folder / "tools"
        if not (tools / "bin/podman-compose").exists():
            subprocess.run([sys.executable, "-m", "venv", tools], check=True, timeout=PATIENCE)
            pip = [tools / "bin/pip", "install", "--quiet", "--require-hashes", "-r", REQUIREMENTS]
            process = subprocess.run(
                pip, check=False, timeout=PATIENCE, capture_output=True, text=True
            )
            if process.returncode:
                raise NotPossible(
                    f"pip cannot install {REQUIREMENTS}: {process.stderr.strip()[-500:]}"
                )

    def shell(self, line, folder):
        """Run a command line in a folder; return its standard output. Raises Failed."""
        return self._output(["bash", "-euc", line], cwd=folder, stdin=subprocess.DEVNULL)

    def run(self, *words):
        """Run Podman; return its standard output. Raises Failed."""
        return self._output(["podman", *map(str, words)])

    def answer(self, *words):
        """Run Podman, whether it succeeds or not; return its exit status, and its standard output and error."""
        process = self._process(["podman", *map(str, words)])
        return process.returncode, process.stdout + process.stderr

    def _output(self, words, **options):
        begin = time.monotonic()
        process = self._process(words, **options)
        if process.returncode:
            raise Failed(
                f"{' '.join(words)}: exit status {process.returncode} after {time.monotonic() - begin:.0f} s\n"
                f"{process.stdout[-3000:]}{process.stderr[-3000:]}"
            )
        return process.stdout

    def _process(self, words, **options):
        return subprocess.run(
            words, check=False, env=self.environ, capture_output=True, text=True, timeout=PATIENCE, **options
        )  # fmt: skip

    def has_image(self, name):
        status, _ = self.answer("image", "exists", name)
        return status == 0

    def running(self, service):
        """Names of the running containers of a service."""
        label = f"label=io.podman.compose.service={service}"
        return sorted(self.run("ps", "--format", "{{.Names}}", "--filter", label).split())

    def is_healthy(self, container):
        """
        Run the health check of a container.

        Podman would have systemd run it at intervals; where tests run, there may be none.
        """
        status, _ = self.answer("healthcheck", "run", container)
        return status == 0

    @contextmanager
    def suspended(self, container):
        """Stop the processes of a container, as if they hung. In one that Podman pauses no health check runs."""
        processes = self.processes(container)
        signal_all(processes, signal.SIGSTOP)
        try:
            yield
        finally:
            signal_all(processes, signal.SIGCONT)

    def fact(self, container, template):
        return self.run("inspect", "--format", template, container).strip()

    def host_name(self, container):
        return self.fact(container, "{{.Config.Hostname}}")

    def process(self, container):
        """Return the number on this host of the first process of a container."""
        return int(self.fact(container, "{{.State.Pid}}"))

    def processes(self, container):
        """Return the numbers on this host of all processes of a container, the first one first."""
        return [int(number) for number in self.run("top", container, "hpid").split()[1:]]

    def kill(self, container):
        """Kill the first process of a container, as a crash would; its restart policy applies."""
        os.kill(self.process(container), signal.SIGKILL)
        self.say(f"  killed {container}")

    def logs(self, service):
        """Return the logs of all containers of a service, ended ones too."""
        label = f"label=io.podman.compose.service={service}"
        names = self.run("ps", "--all", "--format", "{{.Names}}", "--filter", label).split()
        return "".join(self.answer("logs", name)[1] for name in names)

    def remove(self, *, images):
        """Remove containers, networks and volumes; with `images`, everything."""
        self.run("rm", "--all", "--force", "--time", "0")
        self.run("network", "prune", "--force")
        _end_idle_name_server()
        self.run("volume", "rm", "--all", "--force")
        shutil.rmtree(self.folder / "tree", ignore_errors=True)
        if images:
            self.answer("rmi", "--all", "--force")
            shutil.rmtree(self.folder, ignore_errors=True)


def _end_idle_name_server():
    """End the name server of all containers, which outlives them, unless others have a network."""
    pid_file, network = NAME_SERVER / "aardvark.pid", NAME_SERVER / NETWORK
    if pid_file.exists() and {*NAME_SERVER.glob("*")} <= {pid_file, network}:
        network.unlink(missing_ok=True)
        with suppress(ProcessLookupError):
            os.kill(int(pid_file.read_text()), signal.SIGTERM)


def signal_all(processes, number):
    """Send a signal to processes; those that have ended are left out."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def _driver(folder):
    """`overlay` if this host can mount one; else `vfs`, which copies an image for each container."""
    parts = {name: folder / "probe" / name for name in ("lower", "upper", "work", "merged")}
    for path in parts.values():
        path.mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={parts['lower']},upperdir={parts['upper']},workdir={parts['work']}"
    mounted = subprocess.run(
        ["mount", "-t", "overlay", "overlay", "-o", options, parts["merged"]],
        check=False, capture_output=True, timeout=60,
    )  # fmt: skip
    if mounted.returncode == 0:
        subprocess.run(["umount", parts["merged"]], check=True, timeout=60)
    shutil.rmtree(folder / "probe")
    return "overlay" if mounted.returncode == 0 else "vfs"
