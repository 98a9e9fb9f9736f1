"""The wheel and the source distribution: their contents, and a service from the wheel alone."""

import email
import re
import subprocess
import sys
import sysconfig
import tarfile
import urllib.request
import zipfile
from pathlib import Path

import pytest

from tests.support.fleet import PATIENCE, ROOT

PACKAGES = ("app", "drivers", "migrations", "workers")
BUILD = "import sys; from setuptools import build_meta; build_meta.build_{}(sys.argv[1])"


def tracked(*folders):
    output = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders],
        cwd=ROOT, check=True, capture_output=True, text=True, timeout=60,
    ).stdout  # fmt: skip
    return {name for name in output.splitlines() if (ROOT / name).exists()}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Folder of the distributions, built from a copy of the tree, without the network."""
    tree, folder = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    for name in tracked(*PACKAGES, "requirements", "pyproject.toml", "README.md", "LICENSE"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes((ROOT / name).read_bytes())
    for kind in ("sdist", "wheel"):
        subprocess.run(
            [sys.executable, "-c", BUILD.format(kind), str(folder)], cwd=tree, check=True,
            capture_output=True, timeout=PATIENCE * 5,
        )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (path,) = built.glob("*.whl")
    return path


def test_the_wheel_has_each_file_of_the_four_packages_and_nothing_else(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    files = {name for name in names if ".dist-info/" not in name}
    assert tracked(*PACKAGES) == files


def test_the_source_distribution_has_what_a_wheel_is_built_from(built, tmp_path):
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()
    files = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}
    assert tracked(*PACKAGES) <= files
    assert not {name for name in files if name.startswith(("tests/", "docs/", "compose/"))}
    assert {"requirements/run.in", "requirements/otel.in", "LICENSE", "README.md"} <= files


def test_the_metadata_names_the_extras_bounds_and_python(wheel):
    with zipfile.ZipFile(wheel) as file:
        (name,) = (name for name in file.namelist() if name.endswith("/METADATA"))
        metadata = email.message_from_bytes(file.read(name))
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version[1] == metadata["Version"]
    assert {"mysql", "openstack", "otel", "switch"} == set(metadata.get_all("Provides-Extra"))
    requirements = metadata.get_all("Requires-Dist")
    assert [] == [line for line in requirements if ">=" not in line], "a lower bound is missing"
    base = [line for line in requirements if "extra ==" not in line]
    assert not [
        line for line in base if line.startswith(("opentelemetry", "pymysql", "openstacksdk"))
    ]
    assert ">=3.11" == metadata["Requires-Python"]
    assert "text/markdown" in metadata["Description-Content-Type"]


def test_pinned_releases_satisfy_the_bounds():
    """The lock files are those of the bounds, so the bounds have been tested."""
    for name in ("run", "mysql", "openstack", "otel", "switch"):
        pins = dict(
            re.findall(
                r"^([\w.-]+)==([\w.]+)",
                (ROOT / f"requirements/{name}.txt").read_text(),
                re.MULTILINE,
            )
        )
        for line in (ROOT / f"requirements/{name}.in").read_text().splitlines():
            if match := re.match(r"([\w.-]+)(?:\[\w+\])?>=([\d.]+)", line):
                pin = pins[match[1].lower().replace(".", "-") if match[1] not in pins else match[1]]
                numbers = [
                    [int(part) for part in re.findall(r"\d+", text)] for text in (match[2], pin)
                ]
                assert numbers[0] <= numbers[1], line


@pytest.mark.slow
def test_an_installed_wheel_serves(wheel, tmp_path):
    """Its dependencies are those of this environment; the tree is not on its path."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", tmp_path / "new"],
        check=True,
        timeout=PATIENCE,
    )
    python = tmp_path / "new/bin/python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index"]
    subprocess.run([*pip, "--no-deps", wheel], check=True, timeout=PATIENCE * 5)
    (site,) = (tmp_path / "new/lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    place = subprocess.run(
        [python, "-c", "import workers.cli; print(workers.cli.__file__)"], cwd=tmp_path, check=True,
        capture_output=True, text=True, timeout=PATIENCE,
    ).stdout  # fmt: skip
    assert Path(place.strip()).is_relative_to(site)
    with subprocess.Popen(
        [tmp_path / "new/bin/ingot", "up", "--port", "0"], cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as service:  # fmt: skip
        try:
            url = service.stdout.readline().split()[1]
            for path in ("/", "/ui", "/docs", "/ui/main.js", "/v1/drivers"):
                with urllib.request.urlopen(f"{url}{path}", timeout=30) as answer:
                    assert 200 == answer.status, path
        finally:
            service.terminate()
            assert 0 == service.wait(PATIENCE)
