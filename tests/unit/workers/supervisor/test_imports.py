"""Imports of `ingot up`, whose processes keep them as long as they run."""

import subprocess
import sys

RUN = """
import sys
from workers import cli
from workers.supervisor import roles, up

def run(settings, options):
    roles.preload()
    print(options.conductors, settings.api.port, *sorted(set({unused}) & set(sys.modules)))
    return 0

up.run = run
cli.main()
"""
#: Modules that no process needs while the service is idle, each of some MiB with those it imports.
UNUSED = ("opentelemetry", "psutil", "pydantic", "pygments", "rich")


def test_up_imports_no_large_module_that_it_does_not_need(tmp_path):
    program = RUN.replace("{unused}", repr(UNUSED))
    words = ["up", "--data-dir", tmp_path, "--port", "4", "--conductors", "2"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=True
    )
    assert "2 4" == done.stdout.strip()
