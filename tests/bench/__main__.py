"""`python -m tests.bench [name ...] [--nodes N]`: measure, and print what was measured."""

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
    "--nodes", type=int, help="how many at once (default: 50 of lifecycle, 2,000 of load)"
)
parser.add_argument(
    "--ironic", action="store_true", help="api: ask Ironic the same, installed where need be"
)
given = parser.parse_args()
if unknown := set(given.names) - set(NAMES):
    parser.error(f"there is no benchmark {min(unknown)!r}; there are {', '.join(NAMES)}")
if given.ironic and given.names != ["api"]:
    parser.error("--ironic is for api")
beside = {"ironic": True} if given.ironic else {}
for name in given.names or NAMES:
    bench = importlib.import_module(f"tests.bench.bench_{name.replace('-', '_')}")
    bench.main(given.nodes, **beside)
