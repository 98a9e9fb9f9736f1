"""
`make hosts ARGS="--phase NAME --seed N"`: faults of hosts, clocks and the network between them.

Each role of the service, each server and the machines are hosts of their own, in network namespaces
of one isolated process; it takes root. Prints a row for each fault, and ends with status 1 if any row
is wrong. A run of all phases writes its table to docs/reliability.md.
"""

import argparse
import fnmatch
import math
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from tests.chaos.table import write
from tests.hosts import database, isolation, table
from tests.hosts.phases import PHASES
from tests.support.fleet import ROOT

PAGE = ROOT / "docs" / "reliability.md"


def arguments():
    parser = argparse.ArgumentParser(prog="python -m tests.hosts", description=__doc__)
    parser.add_argument(
        "--phase", action="append", default=[], metavar="NAME",
        help="only these phases, in this order; may have wildcards and be repeated",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="list the phases")
    parser.add_argument("--nodes", type=int, default=24, help="machines (default: 24)")
    parser.add_argument("--clients", type=int, default=4, help="clients (default: 4)")
    parser.add_argument("--seed", type=int, help="of all random choices; default: the clock")
    parser.add_argument(
        "--no-times",
        action="store_true",
        help="do not judge how long work stood still: a busy machine",
    )
    parser.add_argument("--folder", type=Path, help="of all logs; kept")
    parser.add_argument(
        "--page",
        action="store_true",
        help=f"write the table of selected phases to {PAGE.name}, too",
    )
    return parser.parse_args()


def selected(patterns):
    """Names of the phases that match one of the patterns. Raises SystemExit: one matches none."""
    found = []
    for pattern in patterns:
        names = fnmatch.filter(PHASES, pattern)
        if not names:
            raise SystemExit(f"no phase {pattern!r}; --list lists all")
        found += [name for name in names if name not in found]
    return found


def say(text):
    print(time.strftime("%H:%M:%S"), text, flush=True)


def work(options):
    """Run the phases, isolated; return the exit status."""
    from tests.hosts import run  # here: --list needs no service
    from tests.hosts.site import Site

    names = selected(options.phase) or list(PHASES)
    rows = []
    with Site(options.folder, options.nodes, options.seed) as site:
        site.enrol()
        say(f"{options.nodes} nodes enrolled, seed {options.seed}")
        for name in names:
            if PHASES[name].needs == "clocks" and not site.has_clocks:
                say(f"{name}: NOT RUN: no C compiler on this machine")
                continue
            say(name)
            phase = PHASES[name]
            if options.no_times:
                phase = replace(phase, allowed=math.inf)
            row = run.phase(site, phase, options.clients)
            rows.append(row)
            print("\n".join([table.line(row), *table.complaints(row)]), flush=True)
        if not all(row.ok for row in rows):
            site.keep_machines()
    facts = {
        "phases": f"{len(rows)} of {len(PHASES)}", "seed": options.seed, "nodes": options.nodes,
        "clients": options.clients,
    }  # fmt: skip
    text = table.shown(rows, facts)
    print(text)
    if options.page or not options.phase:
        write(PAGE, "hosts", text, "hosts")
        say(f"written to {PAGE.relative_to(ROOT)}")
    return 0 if all(row.ok for row in rows) else 1


def main():
    options = arguments()
    if options.list:
        for name, phase in PHASES.items():
            print(f"{name:32} {phase.about}")
        return 0
    if isolation.is_inside():
        return work(options)
    selected(options.phase)
    if why := isolation.why_not() or database.tools():
        print(f"NOT RUN: {why}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # clean up, as after Ctrl-C
    words = sys.argv[1:]
    if options.seed is None:
        words += ["--seed", str(int(time.time()) % 100_000)]
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
        return isolation.run(*words)
    with isolation.folder() as folder:
        status = isolation.run(*words, "--folder", folder)
        if status == 1:
            isolation.keep(folder)
            say(f"all logs are in {folder}")
        return status


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
