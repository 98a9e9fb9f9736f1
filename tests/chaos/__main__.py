"""
`make chaos ARGS="--minutes 10 --nodes 300 --seed N"`: kill everything at random, lose nothing.

Prints the results, writes them to docs/reliability.md, and ends with status 1 if any figure that
must be 0 is not. `--failover`: only the experiment with the death of one of two conductors.
`--rotation` (`make rotation-storm`): only the storm of rotations of the BMCs' passwords.
"""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos import failover, rotation, run, table
from tests.chaos.site import Site
from tests.support.fleet import ROOT

PAGE = ROOT / "docs" / "reliability.md"


def arguments():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=10, help="length of the storm (default: 10)"
    )
    parser.add_argument("--nodes", type=int, default=300, help="machines (default: 300)")
    parser.add_argument("--seed", type=int, help="of all random choices; default: the clock")
    parser.add_argument("--conductors", type=int, default=3)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--gap", type=float, default=2.0, help="mean seconds between disturbances")
    parser.add_argument(
        "--rude", type=float, default=0.5, help="share of machines with rude BMCs (default: 0.5)"
    )
    parser.add_argument("--rest", type=float, default=600, help="most seconds to come to rest")
    parser.add_argument("--failover", action="store_true", help="only the death of one conductor")
    parser.add_argument("--rotation", action="store_true", help="only rotations of passwords")
    parser.add_argument(
        "--waits", type=float, default=0.05, help="factor of the waits of rotations (default: 0.05)"
    )
    parser.add_argument("--each", type=int, default=8, help="nodes in each state of --failover")
    parser.add_argument(
        "--folder",
        type=Path,
        help="of all logs; default: a temporary one, removed after a good run",
    )
    parser.add_argument("--no-page", action="store_true", help=f"leave {PAGE.name} as it is")
    return parser.parse_args()


def say(text):
    print(time.strftime("%H:%M:%S"), text, flush=True)


def weather(options, folder, seed):
    """Run the storm; return its section of the page, and whether all is well."""
    with Site(folder, options.nodes, seed, conductors=options.conductors) as site:
        storm, ledger, verdict, facts = run.storm(
            site, minutes=options.minutes, gap=options.gap, clients=options.clients,
            rest_limit=options.rest, rude=options.rude, say=say,
        )  # fmt: skip
        if not verdict.ok:
            site.keep_machines()
    text = table.shown(facts, storm, ledger, verdict)
    complain(text, verdict)
    return text, verdict.ok


def passwords(options, folder, seed):
    """Run the storm of rotations; return its section of the page, and whether all is well."""
    sizes = {"conductors": options.conductors, "waits": options.waits}
    with rotation.RotationSite(folder, options.nodes, seed, **sizes) as site:
        storm, blow = rotation.blowing(site, options.minutes, options.gap)
        verdict, facts = rotation.run(
            site, blow, clients=options.clients, rest_limit=options.rest, say=say
        )
        if not verdict.ok:
            site.keep_machines()
    facts = {"minutes of storm": f"{options.minutes:g}", **facts}
    text = rotation.shown(facts, storm, verdict)
    complain(text, verdict)
    return text, verdict.ok


def complain(text, verdict):
    """Print a result, and each violation."""
    print(text)
    for row, sentences in verdict.wrong.items():
        for sentence in sentences:
            print(f"WRONG ({row}): {sentence}")


def death(options, folder, seed):
    """Run the failover experiment; return its section of the page, and whether nothing was lost."""
    results = {}
    for way in failover.WAYS:
        say(f"one of two conductors dies, {way}")
        (folder / way).mkdir()
        results[way] = failover.measure(folder / way, way, options.each, seed)
    text = failover.shown(results)
    print(text)
    return text, not any(sum(result.lost.values()) for result in results.values())


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # clean up, as after Ctrl-C
    options = arguments()
    section, target, work = next(
        way for is_chosen, *way in (
            (options.failover, "failover", "chaos", death),
            (options.rotation, "rotation", "rotation-storm", passwords),
            (True, "storm", "chaos", weather),
        ) if is_chosen
    )  # fmt: skip
    seed = options.seed if options.seed is not None else int(time.time()) % 100_000
    say(f"seed {seed}")
    folder, ok = options.folder or Path(tempfile.mkdtemp(prefix="ingot-chaos-")), None
    folder.mkdir(parents=True, exist_ok=True)
    try:
        text, ok = work(options, folder, seed)
    finally:
        if ok is False:
            say(f"all logs are in {folder}")
        elif not options.folder:
            shutil.rmtree(folder)
    if not options.no_page:
        table.write(PAGE, section, text, target)
        say(f"written to {PAGE.relative_to(ROOT)}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
