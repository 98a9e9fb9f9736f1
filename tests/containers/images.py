"""The images that compose.yaml names and no registry serves here: Debian's Python, PostgreSQL and Redis."""

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path

from tests.containers.podman import Failed, NotPossible
from tests.support.fleet import ROOT

FOLDER = Path(__file__).parent
#: Most MB of the image of the service, as a registry stores and a host fetches it.
MOST_MB = 250
NAMES = dict(
    re.findall(r"^(\w+_IMAGE)=(.*)$", (ROOT / "compose/.env.example").read_text(), re.MULTILINE)
)
LIBRARY = "docker.io/library/"
PYTHON, POSTGRES, REDIS = (
    LIBRARY + NAMES[name] for name in ("PYTHON_IMAGE", "POSTGRES_IMAGE", "REDIS_IMAGE")
)
OURS = re.search(r"image: (ingot:\S+)", (ROOT / "compose/compose.yaml").read_text())[1]
#: A root file system of Debian with Python, kept for later runs.
BASE = Path("/var/cache/ingot-tests/python-base.tar")
PACKAGES = "ca-certificates,python3,python3-venv,python-is-python3"
SUPERFLUOUS = ("var/cache/apt/*", "var/lib/apt/lists/*", "usr/share/doc/*", "usr/share/man/*")


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
    made = subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", root],
        check=False, capture_output=True, text=True, timeout=1800,
    )  # fmt: skip
    if made.returncode:
        raise NotPossible(f"debootstrap: {made.stdout[-500:]}{made.stderr[-500:]}")
    for path in (path for pattern in SUPERFLUOUS for path in root.glob(pattern)):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    BASE.parent.mkdir(parents=True, exist_ok=True)
    part = BASE.with_suffix(".part")
    subprocess.run(["tar", "-C", root, "-cf", part, "."], check=True, timeout=600)
    part.rename(BASE)
    shutil.rmtree(root)


def measure(podman, name):
    """Measure the image of the service: MB compressed, and on a disk. Raises Failed."""
    (described,) = json.loads(podman.run("image", "inspect", name))
    assert described["Config"]["User"] == "ingot", "the image must not run as root"
    archive = podman.folder / "image.tar"
    podman.run("save", "--format", "docker-archive", "--output", archive, name)
    packed = archive.with_suffix(".tar.gz")
    with archive.open("rb") as source, gzip.open(packed, "wb", compresslevel=6) as target:
        shutil.copyfileobj(source, target, 1 << 20)
    compressed, on_disk = packed.stat().st_size / 1e6, described["Size"] / 1e6
    archive.unlink()
    packed.unlink()
    if compressed > MOST_MB:
        raise Failed(f"the image has {compressed:.0f} MB, more than {MOST_MB}")
    return compressed, on_disk
