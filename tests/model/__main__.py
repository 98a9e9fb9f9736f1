"""`make model`: the protocol in a larger world, each fault alone and each two together, also twice the same."""

import gc
import sys
import time
from itertools import chain, combinations_with_replacement

from tests.model.checker import Broken
from tests.model.protocol import World
from tests.model.runner import check
from tests.model.state import FAULTS


def main() -> int:
    gc.disable()  # states make no cycles, and are many
    worlds = chain(
        (World(faults=(fault,)) for fault in FAULTS),
        (World(faults=pair, last=1) for pair in combinations_with_replacement(FAULTS, 2)),
    )
    for world in worlds:
        begun = time.process_time()
        try:
            states = check(world, alone=len(world.faults) == 1)
        except Broken as broken:
            print(f"{', '.join(world.faults)}: {broken}")
            return 1
        seconds = time.process_time() - begun
        print(f"{states:9} states {seconds:6.1f} s  {', '.join(world.faults)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
