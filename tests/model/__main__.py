"""
`make model`: the protocol in a larger world. Each fault alone and each pair of faults, also the same
fault twice; and two releases in one fleet. Arguments: only worlds whose name contains one of these.
"""

import gc
import sys
import time
from collections.abc import Iterator
from itertools import combinations_with_replacement

from tests.model.checker import Broken
from tests.model.protocol import World
from tests.model.runner import check
from tests.model.state import CUTS, EXCHANGE, FAULTS, PROMOTION

#: Faults beside each cut; and beside a promotion, where deadlines do not count.
BESIDE_CUTS = ("death", "stop", "answer", "hanging")
BESIDE_PROMOTIONS = ("", "death", "loss", "answer", "repetition")


def worlds() -> Iterator[tuple[str, World, bool]]:
    """Yield (name, world, whether to check as well that it ends with one conductor left)."""
    for fault in FAULTS:
        yield f"three steps, {fault}", World(faults=(fault,)), True
    for fault in FAULTS:
        yield f"a queue between two flows, {fault}", World(faults=(fault,), queues=True), True
    for fault in FAULTS:
        releases = World(faults=(fault,), last_step=1, releases=(1, 2), needs=2, unaware=True)
        yield f"releases 1 and 2, {fault}", releases, True
    yield from _partitions()
    for releases in ((1, 2), (2, 2)):
        faults = ("death", EXCHANGE)
        one, two = releases
        exchanged = World(faults=faults, last_step=1, releases=releases, needs=2, unaware=True)
        yield f"releases {one} and {two}, {' + '.join(faults)}", exchanged, False
    for pair in combinations_with_replacement(FAULTS, 2):
        if pair != ("restore", "restore"):  # the first one ends the operation
            rows = "restore" not in pair
            yield " + ".join(pair), World(faults=pair, last_step=1, rows=rows), False


def _partitions() -> Iterator[tuple[str, World, bool]]:
    """Yield the worlds of lost dependencies, and of promotions that lose the last writes."""
    for cut in CUTS:
        yield f"three steps, {cut}", World(faults=(cut,)), True
        for fault in BESIDE_CUTS:
            yield f"{cut} + {fault}", World(faults=(cut, fault), last_step=1), False
    for pair in combinations_with_replacement(CUTS, 2):
        yield " + ".join(pair), World(faults=pair, last_step=1), False
    for fault in BESIDE_PROMOTIONS:
        faults = (PROMOTION, fault) if fault else (PROMOTION,)
        yield " + ".join(faults), World(faults=faults, last_step=1, prompt=True), False


def main() -> int:
    gc.disable()  # states form no cycles, and there are many of them
    patterns = sys.argv[1:] or [""]
    for name, world, alone in worlds():
        if not any(pattern in name for pattern in patterns):
            continue
        begun = time.process_time()
        try:
            states = check(world, alone=alone)
        except Broken as broken:
            print(f"{name}: {broken}")
            return 1
        seconds = time.process_time() - begun
        print(f"{states:9} states {seconds:6.1f} s  {name}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
