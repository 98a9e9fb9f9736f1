"""
The service of compose/ in containers, installed and operated by the commands of docs/containers.md.

    python -m tests.containers [--keep]     # make compose-test

--keep: leave the containers, and their images for the next run.
Exit status: 0 each stage has passed, 1 one has failed, 3 NOT RUN: the host lacks something.
"""

import argparse
import fcntl
import sys
import time
import traceback
from pathlib import Path

from tests.containers.podman import NotPossible, Podman, prepare
from tests.containers.stages import Stages
from tests.support.fleet import ROOT

FOLDER = Path("/var/tmp/ingot-containers")
LOG = ROOT / "build" / "compose-test.log"
FAILED, NOT_RUN = 1, 3


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.containers")
    parser.add_argument("--keep", action="store_true")
    keep = parser.parse_args().keep
    LOG.parent.mkdir(exist_ok=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    with LOG.open("w") as file, FOLDER.with_suffix(".lock").open("w") as lock:

        def say(line):
            line = f"{time.strftime('%H:%M:%S')} {line}"
            print(line, flush=True)
            print(line, file=file, flush=True)

        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("NOT RUN: another run is going on")
            return NOT_RUN
        try:
            prepare()
            podman = Podman(FOLDER, say)
            podman.remove(images=False)  # remains of a run that was killed or kept
            try:
                return run(podman)
            finally:
                if not keep:
                    podman.remove(images=True)
        except NotPossible as error:
            say(f"NOT RUN: {error}")
            return NOT_RUN


def run(podman):
    """Run the stages, log a table of their seconds; return the exit status."""
    rows = []
    for stage in Stages(podman).all():
        podman.say(f"{stage.__name__}: {stage.__doc__}")
        begin = time.monotonic()
        try:
            stage()
        except NotPossible:
            raise
        except Exception:
            podman.say(f"{stage.__name__}: FAILED\n{traceback.format_exc()}")
            return FAILED
        rows.append((stage.__name__, time.monotonic() - begin))
    for name, seconds in (*rows, ("all stages", sum(seconds for _, seconds in rows))):
        podman.say(f"passed: {name:10} {seconds:5.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
