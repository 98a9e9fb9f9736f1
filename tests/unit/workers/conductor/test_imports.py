"""Imports at the start of a conductor: each conductor of a host pays for them."""

import subprocess
import sys

from tests.support.fleet import ROOT

#: Libraries whose import takes a noticeable part of a second; they are imported when a node needs them.
SLOW = ("keystoneauth1", "openstack")

SCRIPT = f"""
import sys
import workers.conductor.process
print(*(name for name in {SLOW!r} if name in sys.modules))
"""


def test_clients_of_openstack_are_imported_when_they_are_needed():
    started = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert [] == started.stdout.split()
