"""
The deploy ramdisk: Debian's kernel, and a system that starts the ironic-python-agent from PyPI.

It has no init system, so that an emulated processor starts the agent within half a minute.
"""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.lab import cache, packages
from tests.support.fleet import ROOT

HERE = Path(__file__).with_name("ramdisk")
REQUIREMENTS = ROOT / "requirements" / "agent.txt"
SUITE = "bookworm"
_AGENT = """#!/usr/bin/python3
import sys
from ironic_python_agent.cmd.agent import run
sys.exit(run())
"""


@dataclass(frozen=True, slots=True)
class Ramdisk:
    """Files of a deploy ramdisk."""

    kernel: Path
    initramfs: Path
    root: Path  # the initramfs, unpacked
    modules: Path  # folder of all kernel modules


def lines(name):
    """Words of a list, without its comments."""
    text = (HERE / name).read_text()
    return [word for line in text.splitlines() for word in line.partition("#")[0].split()]


def run(*command, **about):
    """Run a command; return its output. Raises RuntimeError with the end of its messages."""
    result = subprocess.run(command, check=False, capture_output=True, timeout=900, **about)
    if result.returncode:
        messages = (result.stderr or result.stdout or b"").decode(errors="replace")[-800:]
        raise RuntimeError(f"{command[0]} ended with {result.returncode}: {messages}")
    return result.stdout


def build(say):
    """Build the ramdisk, or take it from the cache."""
    system = _system(say)
    with cache.kept("ramdisk", HERE, REQUIREMENTS, Path(__file__), SUITE) as (folder, is_complete):
        ramdisk = Ramdisk(
            folder / "kernel", folder / "initramfs", folder / "root", _modules_of(system)
        )
        if not is_complete:
            say("building the ramdisk (a minute)")
            _fill(system, ramdisk)
            _pack(system, ramdisk)
    return ramdisk


def _system(say):
    """Folder with Debian's packages, unpacked."""
    with cache.kept("system", HERE / "packages.list", SUITE) as (folder, is_complete):
        if not is_complete:
            say("fetching the ramdisk's packages (a minute or two)")
            mirror = run(
                "apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"
            ).decode()
            mirrors = [word for word in mirror.split() if "security" not in word]
            names = ",".join(lines("packages.list"))
            run(
                packages.program("debootstrap"), "--variant=minbase", f"--include={names}",
                SUITE, str(folder / "root"), mirrors[0],
            )  # fmt: skip
    return folder / "root"


def _modules_of(system):
    return max((system / "usr/lib/modules").iterdir())


def _fill(system, ramdisk):
    """Unpack everything but the kernel."""
    root, release = ramdisk.root, ramdisk.modules.name
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    out = [f"--exclude=./{path}" if "/" in path else f"--exclude={path}" for path in _left_out()]
    with subprocess.Popen(
        ["tar", "-C", system, *out, "-cf", "-", "."], stdout=subprocess.PIPE
    ) as source:
        run("tar", "-C", str(root), "-xf", "-", stdin=source.stdout)
    for name in ("boot", "proc", "sys", "dev", "run", "tmp", "mnt", "root", "var/log", "etc"):
        (root / name).mkdir(parents=True, exist_ok=True)
    _put_agent(root)
    _put_modules(system, root, ramdisk.modules)
    for name, place in (("init", "init"), ("lease", "etc/lease")):
        shutil.copy(HERE / name, root / place)
    for name in ("poweroff", "reboot"):
        (root / "usr/sbin" / name).unlink(missing_ok=True)
        shutil.copy(HERE / "halt", root / "usr/sbin" / name)
    (root / "etc/resolv.conf").write_text("")
    run("mknod", "-m600", str(root / "dev/console"), "c", "5", "1")
    run("chroot", str(root), "depmod", "-a", release)
    # compile now: at each start it would take an emulated processor a minute
    subprocess.run(
        ["chroot", root, "python3", "-m", "compileall", "-q",
         "--invalidation-mode", "unchecked-hash", "/usr/lib", "/usr/local/lib"],
        check=False, capture_output=True,
    )  # fmt: skip


def _left_out():
    return [line for line in lines("left_out.list") if line]


def _put_agent(root):
    version = run("chroot", str(root), "python3", "-c", "import sys; print(sys.version[:4])")
    packages_folder = root / f"usr/local/lib/python{version.decode().strip()}/dist-packages"
    packages_folder.mkdir(parents=True, exist_ok=True)
    run(
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
        "--no-compile", "--target", str(packages_folder), "--python-version",
        version.decode().strip(), "--only-binary=:all:", "--require-hashes", "-r",
        str(REQUIREMENTS),
    )  # fmt: skip
    for unused in ("bin", "babel", "pip", "setuptools", "tzdata"):
        shutil.rmtree(packages_folder / unused, ignore_errors=True)
    for path in list(packages_folder.rglob("*")):
        if path.is_dir() and path.name in ("tests", "locale"):
            shutil.rmtree(path, ignore_errors=True)
    program = root / "usr/local/bin/ironic-python-agent"
    program.write_text(_AGENT)
    program.chmod(0o755)
    settings = root / "etc/ironic-python-agent.d"
    settings.mkdir(exist_ok=True)
    (settings / "lab.conf").write_text("[DEFAULT]\nuse_stderr = true\n")


def _put_modules(system, root, modules):
    place = root / "usr/lib/modules" / modules.name
    place.mkdir(parents=True)
    for path in needed(system, modules.name, lines("modules.list")):
        copy = root / path.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(system / path.lstrip("/"), copy)
    for path in modules.glob("modules.*"):
        if path.name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
            shutil.copy(path, place)


def needed(system, release, names):
    """Paths of kernel modules and of their dependencies, in the order to load them."""
    paths = {}
    for name in names:
        listing = subprocess.run(
            ["chroot", system, "modprobe", "-S", release, "--show-depends", name],
            check=False, capture_output=True, text=True,
        )  # fmt: skip
        for line in listing.stdout.splitlines():
            if line.startswith("insmod"):
                path = line.split()[1]
                paths.setdefault(path if path.startswith("/usr") else f"/usr{path}")
    return list(paths)


def _pack(system, ramdisk):
    shutil.copy(system / f"boot/vmlinuz-{ramdisk.modules.name}", ramdisk.kernel)
    pack = (
        "find . -print0 | sort -z | cpio --null --create --format=newc --quiet --owner=0:0"
        f" | zstd -q -T0 -10 -o '{ramdisk.initramfs}'"
    )
    run("bash", "-o", "pipefail", "-c", pack, cwd=ramdisk.root)
