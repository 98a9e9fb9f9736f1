"""
Checks of the packages and images that Ingot uses: `python -m tests.supply_chain packages`, or `images`.

Exit status: 0 nothing found, 1 findings, 3 NOT RUN, because the data could not be read.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUN = ROOT / "requirements" / "run.txt"
NOT_RUN = 3
DIGEST = re.compile(r"@sha256:[0-9a-f]{64}")
NAME = re.compile(r"^(\w+_IMAGE)=(.*)$", re.MULTILINE)


def packages():
    """Look for packages with a known weakness that a later version mends, by pip-audit."""
    command = [sys.executable, "-m", "pip_audit", "--require-hashes", "--disable-pip", "--format", "json",
               "--progress-spinner", "off", "--requirement", str(RUN)]  # fmt: skip
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = process.stderr.strip().splitlines() or ["no answer"]
    return verdict(process.stdout, lines[-1])


def verdict(report, trouble):
    """
    Exit status and lines for a report of pip-audit.

    trouble: the reason, if there is no report.
    """
    try:
        dependencies = json.loads(report)["dependencies"]
    except ValueError:
        return NOT_RUN, [f"NOT RUN: {trouble}"]
    skipped = [package for package in dependencies if "skip_reason" in package]
    lines = [
        f"{package['name']} {package['version']}: {weakness['id']}, mended in {', '.join(weakness['fix_versions'])}"
        for package in dependencies
        for weakness in package.get("vulns", ())
        if weakness["fix_versions"]
    ]
    if lines:
        return 1, lines
    if skipped or not dependencies:
        reason = skipped[0]["skip_reason"] if skipped else "the report names no package"
        return NOT_RUN, [
            f"NOT RUN: {len(skipped)} of {len(dependencies)} packages have no data: {reason}"
        ]
    return 0, [f"{len(dependencies)} packages, none with a known fix"]


def images(folder=ROOT / "compose"):
    """Look for images that compose/.env names without a digest."""
    needed = [name for name, _ in NAME.findall((folder / ".env.example").read_text())]
    environ = folder / ".env"
    if not environ.exists():
        return NOT_RUN, [f"NOT RUN: {environ} does not exist: copy .env.example"]
    references = dict(NAME.findall(environ.read_text()))
    open_ = [name for name in needed if not DIGEST.search(references.get(name, ""))]
    lines = [f"{name} in {environ} has no digest (@sha256:...)" for name in open_]
    return (1, lines) if lines else (0, [f"{len(needed)} images, each with its digest"])


if __name__ == "__main__":
    status, text = {"packages": packages, "images": images}[sys.argv[1]]()
    print("\n".join(text))
    sys.exit(status)
