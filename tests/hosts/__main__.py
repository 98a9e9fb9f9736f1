"""
`make hosts ARGS="--phase NAME --seed N"`: faults of hosts, clocks and the network between them.

Each role of the service, each server and the machines are hosts of their own, in network namespaces
of one isolated process, the rig; it takes root. Prints a row for each fault, and ends with status 1
if any row is wrong. A run of all phases writes its table to docs/reliability.md.
"""

import argparse
import fnmatch
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from tests.chaos.table import write
from tests.hosts import database, isolation, table
from tests.hosts.phases import PHASES
from tests.hosts.rigs import NotReady, Rigs
from tests.support.fleet import ROOT

PAGE = ROOT / "docs" / "reliability.md"


def arguments():
    parser = argparse.ArgumentParser(prog="python -m tests.hosts", description=__doc__)
    parser.add_argument(
        "--phase", action="append", default=[], metavar="NAME",
        help="only these phases, in this order; may have wildcards and be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N",
        help="rigs at once; with more than one, times are not judged (default: 1)",
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
    phase_names = []
    for pattern in patterns:
        names = fnmatch.filter(PHASES, pattern)
        if not names:
            raise SystemExit(f"no phase {pattern!r}; --list lists all")
        phase_names += [name for name in names if name not in phase_names]
    return phase_names


def say(text):
    print(time.strftime("%H:%M:%S"), text, flush=True)


def run(options, folder):
    """Run the phases; return the exit status."""
    names = selected(options.phase) or list(PHASES)

    @contextmanager
    def start(number):
        path = folder / f"rig-{number}"
        path.mkdir()
        words = [
            "--folder", path, "--seed", options.seed, "--nodes", options.nodes,
            "--clients", options.clients, *(["--no-times"] if options.no_times else []),
        ]  # fmt: skip
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with isolation.running(*words, text=True, **pipes) as program:
            yield program

    say(f"seed {options.seed}, logs of this run: {folder}")
    results = Rigs(options.jobs, start, say).run(names)
    lines = [result["line"] for result in results if result.get("line")]
    facts = {
        "phases": f"{len(lines)} of {len(PHASES)}", "seed": options.seed, "nodes": options.nodes,
        "clients": options.clients, "at once": options.jobs,
        "times": "not judged" if options.no_times else "judged",
    }  # fmt: skip
    text = table.shown(lines, facts)
    print(text)
    for result in results:
        if not result.get("ok", True):
            print("\n".join([f"{result['phase']}:", *result["complaints"]]))
        if "not_run" in result:
            print(f"{result['phase']}: NOT RUN: {result['not_run']}")
    if options.page or not options.phase:
        write(PAGE, "hosts", text, "hosts")
        say(f"written to {PAGE.relative_to(ROOT)}")
    return 0 if all(result.get("ok", True) for result in results) else 1


def main():
    options = arguments()
    if options.list:
        for name, phase in PHASES.items():
            print(f"{name:32} {phase.about}")
        return 0
    if isolation.is_inside():
        from tests.hosts import rig  # here: --list needs no service

        workload = {"nodes": options.nodes, "clients": options.clients, "seed": options.seed}
        rig.serve(options.folder, judges_times=not options.no_times, **workload)
        return 0
    selected(options.phase)
    if reason := isolation.why_not() or database.tools():
        print(f"NOT RUN: {reason}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # clean up, as after Ctrl-C
    if options.seed is None:
        options.seed = int(time.time()) % 100_000
    options.no_times |= options.jobs > 1
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
        return run(options, options.folder.resolve())
    with isolation.folder() as folder:
        status = 1
        try:
            status = run(options, folder)
        except NotReady as error:
            print(error, file=sys.stderr)
        if status:
            isolation.keep(folder)
            say(f"all logs are in {folder}")
        return status


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
