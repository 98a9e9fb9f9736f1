"""
A rig: one site in its isolated process, which runs one phase after the other.

Standard input has the name of a phase on each line. Standard output has a JSON document on each:
`READY` when the site is up, then the result of each phase.
"""

import json
import math
import os
import sys
from dataclasses import replace

from tests.hosts import run, table
from tests.hosts.phases import PHASES
from tests.hosts.site import Site

#: Document of a site that is up.
READY = {"ready": True}


def serve(folder, *, nodes, clients, seed, judges_times):
    """Run phases until the end of the standard input."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # any other output goes to the error output
    with Site(folder, nodes, seed) as site:
        site.enrol()
        print(json.dumps(READY), file=out)
        for line in sys.stdin:
            phase = PHASES[line.strip()]
            if phase.needs == "clocks" and not site.has_clocks:
                result = {"phase": phase.name, "not_run": "no C compiler on this machine"}
            else:
                allowed = phase.allowed if judges_times else math.inf
                result = _result(site, replace(phase, allowed=allowed), clients)
            print(json.dumps(result), file=out)


def _result(site, phase, clients):
    row = run.phase(site, phase, clients)
    if not row.ok:
        site.keep_machines()
    return {
        "phase": phase.name, "ok": row.ok, "line": table.line(row),
        "complaints": table.complaints(row), "took": row.took,
    }  # fmt: skip
