"""
`python -m tests.compare [table ...]`: send the same requests to Ironic and Ingot, and compare.

Exits 1 if a difference is not listed in docs/compatibility.md, or (after a run of all tables) if a
listed one did not occur.
"""

import argparse
import signal
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.compare import known
from tests.compare.comparison import differences
from tests.compare.ironic import CONDUCTOR, INTERFACES, Ironic
from tests.compare.report import Finding, Report
from tests.compare.runner import Service
from tests.compare.tables import TABLES
from tests.support.fleet import Fleet

SETTINGS = {
    "INGOT_HOST": CONDUCTOR.rpartition("-")[0],
    "INGOT_ENABLED_HARDWARE_TYPES": "fake-hardware",
    "INGOT_CONDUCTOR_NODE_LOCKED_RETRY_INTERVAL": "1",
    **{f"INGOT_ENABLED_{kind.upper()}_INTERFACES": names for kind, names in INTERFACES.items()},
}


def main(names: list[str]) -> int:
    report = Report(known.read(known.PAGE.read_text()))
    with (
        tempfile.TemporaryDirectory() as folder,
        Ironic(Path(folder)) as ironic,
        Fleet(folder, conductors=1, **SETTINGS) as ingot,
        ThreadPoolExecutor(2) as both,
    ):
        services = [Service(ironic.url), Service(ingot.url)]
        for name in names or TABLES:
            table = TABLES[name]
            theirs, ours = both.map(lambda service, table=table: service.run(table), services)
            for ask, their, our in zip(table, theirs, ours, strict=True):
                report.add(Finding(name, ask.label, differences(their, our, prose=ask.prose)))
    for line in report.lines():
        print(line)
    stale = [] if names else report.stale
    for entry in stale:
        print(
            f"listed, but not seen: {entry.request} | {entry.part} | {entry.ironic} | {entry.ingot}"
        )
    print(report.summary())
    return 1 if report.unlisted or stale else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # clean up, as after Ctrl-C
    parser = argparse.ArgumentParser(prog="python -m tests.compare", description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="table", help=f"of {', '.join(TABLES)}")
    tables = parser.parse_args().tables
    if unknown := set(tables) - TABLES.keys():
        parser.error(f"there is no table {min(unknown)!r}; there are {', '.join(TABLES)}")
    sys.exit(main(tables))
