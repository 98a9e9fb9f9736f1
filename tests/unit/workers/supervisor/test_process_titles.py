"""Titles of the processes, as `ps` shows them."""

import subprocess
import sys

import pytest

# in an interpreter of its own: a title is written over the arguments of the process
PROGRAM = """
import sys
from pathlib import Path
from workers.supervisor import roles
roles.become(None, sys.argv[1], lambda _: print(Path("/proc/self/cmdline").read_text().rstrip(chr(0))))
"""


@pytest.mark.parametrize(
    ("role", "title"), [("api", "ingot: api"), ("vm-2", "ingot: conductor vm-2")]
)
def test_a_process_has_the_title_of_its_role(role, title):
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, role], capture_output=True, text=True, check=True
    )
    assert title == ended.stdout.strip()
