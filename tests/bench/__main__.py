"""`python -m tests.bench [name ...] [--nodes N]`: run benchmarks, and print their results."""

import argparse
import importlib
from pathlib import Path

NAMES = sorted(
    path.stem.removeprefix("bench_").replace("_", "-")
    for path in Path(__file__).parent.glob("bench_*")
)

parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(NAMES)}; default: all")
parser.add_argument(
    "--nodes", type=int, help="nodes at a time (default: 50 for lifecycle, 2,000 for load)"
)
parser.add_argument(
    "--ironic", action="store_true", help="api: measure Ironic too, and install it if it is missing"
)
arguments = parser.parse_args()
if unknown := set(arguments.names) - set(NAMES):
    parser.error(f"there is no benchmark {min(unknown)!r}; there are {', '.join(NAMES)}")
if arguments.ironic and arguments.names != ["api"]:
    parser.error("--ironic is for api")
options = {"ironic": True} if arguments.ironic else {}
for name in arguments.names or NAMES:
    bench = importlib.import_module(f"tests.bench.bench_{name.replace('-', '_')}")
    bench.main(arguments.nodes, **options)
