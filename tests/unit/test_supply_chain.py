"""The bill of materials, and the verdicts on packages and images."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import supply_chain

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"^([\w.-]+)==(\S+) ", re.MULTILINE)


def test_the_bill_of_materials_has_every_pinned_package_with_its_hashes(tmp_path):
    recipe = (ROOT / "Makefile").read_text().partition("\nsbom:")[2].partition("\n\n")[0]
    words = re.search(r"cyclonedx-py (.*)", recipe)[1].replace("$@", "").split()
    path = tmp_path / "sbom.json"
    words[words.index("build/sbom.json")] = str(path)
    command = [Path(sys.executable).parent / "cyclonedx-py", *words]
    subprocess.run(command, cwd=ROOT, check=True, timeout=120)
    bill = json.loads(path.read_text())
    assert "CycloneDX" == bill["bomFormat"]
    assert "ingot" == bill["metadata"]["component"]["name"]
    hashes = {
        (component["name"], component["version"]): {
            one["content"]
            for place in component["externalReferences"]
            for one in place.get("hashes", [])
        }
        for component in bill["components"]
    }
    blocks = (ROOT / "requirements/run.txt").read_text().replace("\\\n", " ")
    pinned = {
        PIN.match(line).groups(): set(re.findall(r"sha256:([0-9a-f]{64})", line))
        for line in blocks.splitlines()
    }
    assert pinned == hashes
    assert all(pinned.values())


WEAK = {"id": "PYSEC-1", "fix_versions": ["1.1"]}


@pytest.mark.parametrize(
    ("packages", "status", "text"),
    [
        ([{"name": "a", "version": "1.0", "vulns": []}], 0, "1 packages, none with a known fix"),
        ([{"name": "a", "version": "1.0", "vulns": [WEAK]}], 1, "a 1.0: PYSEC-1, mended in 1.1"),
        ([{"name": "a", "version": "1.0", "vulns": [WEAK | {"fix_versions": []}]}], 0, "none with"),
        ([{"name": "a", "skip_reason": "not found"}], 3, "NOT RUN: 1 of 1 packages"),
        (
            [{"name": "a", "skip_reason": "x"}, {"name": "b", "version": "1", "vulns": [WEAK]}],
            1,
            "b 1",
        ),
        ([], 3, "NOT RUN"),
    ],
)
def test_a_package_without_data_is_never_taken_for_a_sound_one(packages, status, text):
    got, lines = supply_chain.verdict(json.dumps({"dependencies": packages}), "")
    assert status == got
    assert text in lines[0]


def test_without_a_report_the_check_was_not_run():
    assert (3, ["NOT RUN: no route to host"]) == supply_chain.verdict("", "no route to host")


def test_an_image_without_a_digest_is_a_finding(tmp_path):
    example = (ROOT / "compose/.env.example").read_text()
    (tmp_path / ".env.example").write_text(example)
    assert supply_chain.NOT_RUN == supply_chain.images(tmp_path)[0]
    (tmp_path / ".env").write_text(example)
    status, lines = supply_chain.images(tmp_path)
    assert (1, 6) == (status, len(lines))
    digested = re.sub(r"(_IMAGE=.*)", rf"\1@sha256:{'0' * 64}", example)
    (tmp_path / ".env").write_text(digested)
    assert 0 == supply_chain.images(tmp_path)[0]
