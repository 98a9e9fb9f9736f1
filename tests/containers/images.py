"""The images of compose.yaml, made here under the names that it uses: there is no registry."""

import json
import re
import shutil
import subprocess
from pathlib import Path

from tests.containers.engine import Failed, NotPossible
from tests.support.fleet import ROOT

FOLDER = Path(__file__).parent
LIBRARY = "docker.io/library/"
#: Most MB of the image, as a registry stores and a host fetches it.
MOST_MB = 250
EXAMPLE = dict(
    re.findall(r"^(\w+_IMAGE)=(.*)$", (ROOT / "compose/.env.example").read_text(), re.MULTILINE)
)
OURS = re.search(r"image: (ingot:\S+)", (ROOT / "compose/compose.yaml").read_text())[1]
PREVIOUS = "ingot:previous"
#: A root file system of Debian with Python, kept for later runs.
BASE = Path("/var/cache/ingot-tests/python-base.tar")


def build(engine, say):
    """Build all images that the test needs."""
    python = LIBRARY + EXAMPLE["PYTHON_IMAGE"]
    say("Debian's Python, as the base image")
    base(engine, python)
    say("PostgreSQL and Redis")
    names = [LIBRARY + EXAMPLE[name] for name in ("POSTGRES_IMAGE", "REDIS_IMAGE")]
    engine.build(FOLDER, FOLDER / "servers.Containerfile", *names, BASE=python)
    say("this release")
    ours(engine, ROOT, OURS)


def base(engine, name):
    """Import the base image, made from Debian's packages as compose/Dockerfile expects it."""
    if not BASE.exists():
        root = engine.folder / "base"
        packages = "ca-certificates,python3,python3-venv,python-is-python3"
        made = subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={packages}", "bookworm", root],
            check=False, capture_output=True, text=True, timeout=1800,
        )  # fmt: skip
        if made.returncode:
            raise NotPossible(f"debootstrap: {made.stdout[-500:]}{made.stderr[-500:]}")
        for pattern in (
            "var/cache/apt/*",
            "var/lib/apt/lists/*",
            "usr/share/doc/*",
            "usr/share/man/*",
        ):
            for path in root.glob(pattern):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        BASE.parent.mkdir(parents=True, exist_ok=True)
        part = BASE.with_suffix(".part")
        subprocess.run(["tar", "-C", root, "-cf", part, "."], check=True, timeout=600)
        part.rename(BASE)
        shutil.rmtree(root)
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    engine.run("import", "--change", f"ENV PATH={path}", BASE, name)


def ours(engine, tree, name):
    """Build the image of a tree by its own compose/Dockerfile."""
    engine.build(
        tree, Path(tree, "compose/Dockerfile"), LIBRARY + name,
        PYTHON_IMAGE=LIBRARY + EXAMPLE["PYTHON_IMAGE"],
    )  # fmt: skip


def previous(engine, say):
    """
    Build the image of the last state of the tree with an older schema; return its commit.

    None without the history of the tree.
    """
    newest = _git("rev-list", "-1", "--first-parent", "HEAD", "--", "migrations/versions").strip()
    commit = newest and _git("rev-parse", "--verify", "--quiet", f"{newest}^1").strip()
    if not commit:
        return None
    if engine.run("image", "exists", LIBRARY + PREVIOUS, check=False, quiet=True).returncode == 0:
        return commit
    say(f"the release of commit {commit[:8]}, before the last migration")
    tree = engine.folder / "previous"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir()
    archive = subprocess.run(
        ["git", "archive", commit], cwd=ROOT, check=True, capture_output=True, timeout=60
    )
    subprocess.run(["tar", "-x", "-C", tree], input=archive.stdout, check=True, timeout=60)
    ours(engine, tree, PREVIOUS)
    return commit


def _git(*words):
    done = subprocess.run(
        ["git", *words], cwd=ROOT, check=False, capture_output=True, text=True, timeout=60
    )
    return done.stdout if done.returncode == 0 else ""


def check_size(engine, say):
    """Measure the image: on a disk, and compressed."""
    (described,) = json.loads(engine.run("image", "inspect", LIBRARY + OURS, quiet=True))
    archive = engine.folder / "image.tar"
    engine.run("save", "--format", "docker-archive", "--output", archive, LIBRARY + OURS)
    with archive.open("rb") as file:
        packed = subprocess.run(
            ["gzip", "-6", "--stdout"], stdin=file, capture_output=True, check=True
        )
    archive.unlink()
    megabytes = len(packed.stdout) / 1e6
    say(f"the image has {megabytes:.0f} MB compressed, {described['Size'] / 1e6:.0f} MB on a disk")
    if megabytes > MOST_MB:
        raise Failed(f"the image has {megabytes:.0f} MB, more than {MOST_MB}")
    assert described["Config"]["User"] == "ingot", "the image must not run as root"
