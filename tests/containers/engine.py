"""
Podman, as Debian packages it, with all that it keeps in one folder.

The runtime is runc, which works where namespaces are nested and limits may not be raised. Nothing of a
Podman that the host has otherwise is read or changed.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

PACKAGES = ("podman", "runc", "netavark", "aardvark-dns", "iptables", "debootstrap")
CONTAINERS = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
image_default_transport = "docker://"
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
#: The host's certificates, which the programs in a build need behind a proxy.
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


class NotPossible(Exception):
    """This host cannot run the containers; the message says what it lacks."""


class Failed(AssertionError):
    """A command of the engine failed; the message has its output."""


def prepare():
    """Install Podman. Raises NotPossible."""
    if os.geteuid():
        raise NotPossible("it needs root, for Podman's networks: try sudo make compose-test")
    missing = [
        name for name in ("podman", "runc", "debootstrap", "iptables") if not shutil.which(name)
    ]
    missing += [name for name in ("netavark", "aardvark-dns") if not _helper(name)]
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise NotPossible(f"it needs Debian's packages {', '.join(PACKAGES)}")
    for words in (("update", "-q"), ("install", "-qy", "--no-install-recommends", *PACKAGES)):
        done = subprocess.run(
            ["apt-get", *words], check=False, capture_output=True, text=True,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        )  # fmt: skip
        if done.returncode:
            raise NotPossible(f"apt-get {words[0]}: {done.stderr.strip()[-500:]}")


def _helper(name):
    return any(Path(folder, name).exists() for folder in ("/usr/lib/podman", "/usr/libexec/podman"))


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


class Engine:
    """
    Podman with its files in a folder.

    say: receives a line for each command.
    """

    def __init__(self, folder, say):
        self.folder, self.say = folder, say
        (folder / "networks").mkdir(parents=True, exist_ok=True)
        for name, text in (("containers.conf", CONTAINERS), ("storage.conf", STORAGE)):
            (folder / name).write_text(text.format(folder=folder, driver=_driver(folder)))
        (folder / "registries.conf").write_text(
            'unqualified-search-registries = ["docker.io"]\nshort-name-mode = "disabled"\n'
        )
        self.environ = {
            **os.environ,
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
            "CONTAINERS_REGISTRIES_CONF": str(folder / "registries.conf"),
        }

    def run(
        self, *words, check=True, quiet=False, stdin=None, binary=False, program="podman", **how
    ):
        """Run a command of Podman; return its standard output. Raises Failed."""
        begun = time.monotonic()
        done = subprocess.run(
            [program, *map(str, words)], check=False, env=self.environ, stdin=stdin,
            capture_output=True, text=not binary, timeout=1800, **how,
        )  # fmt: skip
        if not quiet:
            shown = " ".join(map(str, words))[:160]
            self.say(
                f"  {Path(program).name} {shown}: {done.returncode}, {time.monotonic() - begun:.1f} s"
            )
        if check and done.returncode:
            raise Failed(f"podman {' '.join(map(str, words))}: {done.returncode}\n{_tail(done)}")
        return done.stdout if check else done

    def build(self, folder, containerfile, *tags, **arguments):
        """
        Build an image in one layer for each stage, with the network and certificates of the host.

        With the storage `vfs` each layer is a whole copy of the files.
        """
        options = ["--network=host", "--layers=false", "--file", containerfile]
        options += [word for tag in tags for word in ("--tag", tag)]
        options += [word for item in arguments.items() for word in ("--build-arg", "=".join(item))]
        if Path(CERTIFICATES).exists():
            conf = self.folder / "pip.conf"
            conf.write_text(f"[global]\ncert = {CERTIFICATES}\n")
            options += ["--volume", f"{CERTIFICATES}:{CERTIFICATES}:ro"]
            options += ["--volume", f"{conf}:/etc/pip.conf:ro"]
        self.run("build", *options, folder)

    def containers(self, *filters):
        """Names of the running containers."""
        words = [word for text in filters for word in ("--filter", text)]
        return self.run("ps", "--format", "{{.Names}}", *words, quiet=True).split()

    def is_healthy(self, container):
        """
        Run the health check of a container.

        Podman would have systemd run it at intervals; where tests run, there may be none.
        """
        return 0 == self.run("healthcheck", "run", container, check=False, quiet=True).returncode

    def remove(self, *, images=True):
        """Remove containers, networks, volumes and files; the images, too, unless they are kept."""
        self.run("rm", "--all", "--force", "--time", "0", check=False, quiet=True)
        self.run("network", "prune", "--force", check=False, quiet=True)
        self.run("volume", "prune", "--force", check=False, quiet=True)
        if images:
            self.run("rmi", "--all", "--force", check=False, quiet=True)
            shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.folder / "compose", ignore_errors=True)


def _tail(done):
    output = done.stdout if isinstance(done.stdout, str) else ""
    error = done.stderr if isinstance(done.stderr, str) else done.stderr.decode(errors="replace")
    return f"{output[-3000:]}{error[-3000:]}"


def python_tool(folder, *packages):
    """Return the `bin` folder of a new environment with Python packages, made once."""
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=300)
        pip = [
            folder / "bin/python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        subprocess.run([*pip, *packages], check=True, timeout=600, capture_output=True)
        (folder / "ready").touch()
    return folder / "bin"
