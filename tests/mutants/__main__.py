"""`make mutants`: change the tree so that it breaks a demand of docs/specs.md; its tests must fail."""

import argparse
import sys

from tests.mutants import runner, table


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="ID", help="these mutants")
    parser.add_argument("--spec", help="the mutants of one spec: stem of a file in tests/mutants")
    parser.add_argument("--sample", type=int, help="so many; others on another day")
    parser.add_argument("--jobs", type=int, default=2, help="copies of the tree used in parallel")
    options = parser.parse_args()
    options.mutants = [
        mutant for mutant in table.load() if options.spec in (None, mutant.spec)
        and mutant.id in (options.only or [mutant.id])
    ]  # fmt: skip
    if unknown := set(options.only) - {mutant.id for mutant in options.mutants}:
        parser.error(f"no such mutant: {', '.join(sorted(unknown))}")
    if not options.mutants:
        parser.error(f"no mutants of a spec {options.spec!r}")
    if options.sample:
        options.mutants = table.sample(options.mutants, options.sample)
    return options


def main() -> int:
    options = arguments()
    unacceptable = 0
    for verdict in runner.run(options.mutants, options.jobs):
        unacceptable += not verdict.acceptable
        print(
            f"{verdict.mutant.id:40} {verdict.word:10} {verdict.seconds:6.1f} s  {verdict.detail}",
            flush=True,
        )
    print(f"{len(options.mutants)} mutants, {unacceptable} to be mended")
    return 1 if unacceptable else 0


if __name__ == "__main__":
    sys.exit(main())
