"""The images that compose.yaml names, of Debian's packages instead of a registry's; the image of the service."""

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path
from zlib import crc32

from app.config.settings import Settings
from tests.containers.podman import Failed, NotPossible
from tests.support.fleet import ROOT

FOLDER = Path(__file__).parent
#: Most MB of the image of the service on a disk.
MOST_MB = 250
NAMES = dict(
    re.findall(r"^(\w+_IMAGE)=(.*)$", (ROOT / "compose/.env.example").read_text(), re.MULTILINE)
)
LIBRARY = "docker.io/library/"
PYTHON, POSTGRES, REDIS = (
    LIBRARY + NAMES[name] for name in ("PYTHON_IMAGE", "POSTGRES_IMAGE", "REDIS_IMAGE")
)
OURS = re.search(r"image: (ingot:\S+)", (ROOT / "compose/compose.yaml").read_text())[1]
PACKAGES = "ca-certificates,python3,python3-venv,python-is-python3"
#: Left out of it, as of the images of Debian that registries have.
SUPERFLUOUS = (
    "var/cache/apt/*", "var/lib/apt/lists/*", "usr/share/doc/*", "usr/share/locale/*", "usr/share/man/*",
)  # fmt: skip
#: A root file system of Debian with Python, kept for later runs.
BASE = Path(f"/var/cache/ingot-tests/python-{crc32(f'{PACKAGES} {SUPERFLUOUS}'.encode()):08x}.tar")
OPTIONS = Settings().default
#: Commands that must succeed in the image of the service: the programs that conductors start, boot loaders, bytecode.
COMMANDS = (
    "ipmitool -V", "qemu-img --version", "ssh -V",
    f"test -s {OPTIONS.isolinux_bin}", f"test -s {OPTIONS.ldlinux_c32}",
    *(f"test -s {path}" for path in OPTIONS.efi_loader_by_arch.values()),
    "test -s /opt/ingot/lib/python3*/site-packages/app/server/__pycache__/application.*.pyc",
)  # fmt: skip


def make(podman):
    """Make the images, unless a run with --keep has left them. Raises NotPossible."""
    if not podman.has_image(PYTHON):
        if not BASE.exists():
            _debootstrap(podman.folder / "base")
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        podman.run("import", "--change", f"ENV PATH={path}", BASE, PYTHON)
    if not podman.has_image(POSTGRES):
        podman.run(
            "build", *podman.build_options, "--layers=false", "--build-arg", f"BASE={PYTHON}",
            "--tag", POSTGRES, "--tag", REDIS, "--file", FOLDER / "servers.Containerfile", FOLDER,
        )  # fmt: skip


def _debootstrap(root):
    process = subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", root],
        check=False, capture_output=True, text=True, timeout=1800,
    )  # fmt: skip
    if process.returncode:
        raise NotPossible(f"debootstrap: {process.stdout[-500:]}{process.stderr[-500:]}")
    for path in (path for pattern in SUPERFLUOUS for path in root.glob(pattern)):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    BASE.parent.mkdir(parents=True, exist_ok=True)
    part = BASE.with_suffix(".part")
    subprocess.run(["tar", "-C", root, "-cf", part, "."], check=True, timeout=600)
    part.rename(BASE)
    shutil.rmtree(root)


def check_contents(podman):
    """Check that the image of the service has the programs and files that conductors need. Raises Failed."""
    podman.run("run", "--rm", "--entrypoint", "sh", OURS, "-euc", "\n".join(COMMANDS))


def measure(podman):
    """Measure the image of the service: MB compressed, and on a disk. Raises Failed: it is too large."""
    (image,) = json.loads(podman.run("image", "inspect", OURS))
    assert image["Config"]["User"] == "ingot", "the image must not run as root"
    archive = podman.folder / "image.tar"
    podman.run("save", "--format", "docker-archive", "--output", archive, OURS)
    packed = archive.with_suffix(".tar.gz")
    with archive.open("rb") as source, gzip.open(packed, "wb", compresslevel=6) as target:
        shutil.copyfileobj(source, target, 1 << 20)
    compressed, on_disk = packed.stat().st_size / 1e6, image["Size"] / 1e6
    archive.unlink()
    packed.unlink()
    if on_disk > MOST_MB:
        raise Failed(f"the image has {on_disk:.0f} MB on a disk, more than {MOST_MB}")
    return compressed, on_disk
