"""Wall clocks: only the modules that are listed here read one, each for a reason."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Functions that read the clock of the host; `utcnow` is that of `app.db.clock`.
READS = {
    "time.time", "time.time_ns", "time.localtime", "time.gmtime", "time.ctime", "time.strftime",
    "time.asctime", "datetime.now", "datetime.utcnow", "datetime.today", "date.today", "utcnow",
    "clock.utcnow",
}  # fmt: skip
#: Module, or folder, that reads a wall clock -> the reason; nothing in the service depends on it.
ALLOWED = {
    "app/broker/monitoring.py": "times of events, as Flower wants them",
    "app/cli/operation_progress.py": "shows how long an operation has run",
    "app/cli/terminal/times.py": "times that a user names, such as yesterday",
    "app/db/clock.py": "has the host's clock, for the doctor",
    "app/process/tracing.py": "times of spans, as collectors want them",
    "app/ui/changes.js": "begin of the time whose changes are shown",
    "app/ui/facts.js": "shows ages",
    "app/ui/node.js": "shows the progress of an operation",
    "app/ui/parts.js": "shows since when the connection is lost",
    "drivers/agent/logs.py": "names of files",
    "drivers/images/cache.py": "age of files, which outlive a boot; a step costs a download",
    "drivers/redfish/clock.py": "sets and verifies the clock of a BMC by that of the conductor",
    "drivers/redfish/raid.py": "a time that Ironic's documents have",
    "drivers/simulator": "simulated machines have clocks of their own",
    "drivers/net/signed.py": "the receiver compares the time of the signature with its own",
    "app/ui/novnc.js": "a library: the pace of gestures of fingers",
    "app/ui/xterm.js": "a library: the pace of its drawing",
    "workers/consoles/history.py": "times of records, for people; age of files",
    "workers/conductor/attempts.py": "times of spans, as collectors want them",
    "workers/doctor/environment_checks.py": "compares the clocks of hosts",
}
IN_JAVASCRIPT = re.compile(r"\bDate\.now\(|\bnew Date\(\)|\bDate\(\)|\bperformance\.timeOrigin\b")


def reads(source):
    """Yield the lines and names of the reads of a wall clock in a Python module."""
    nodes = list(ast.walk(ast.parse(source)))
    names = {}  # in the module -> of the function, or of the module or class that has it
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name: alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            prefix = "time." if node.module == "time" else ""
            names |= {alias.asname or alias.name: f"{prefix}{alias.name}" for alias in node.names}
    for node in nodes:
        name = None
        if isinstance(node, ast.Name):
            name = names.get(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{names.get(node.value.id, node.value.id)}.{node.attr}"
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            name = f"{node.value.attr}.{node.attr}"
        if name in READS:
            yield node.lineno, name


def found():
    """Return the reads in all modules of the service: path -> lines and names."""
    places = {}
    for folder in ("app", "workers", "drivers"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            places[str(path.relative_to(ROOT))] = sorted(set(reads(path.read_text())))
        for path in sorted((ROOT / folder).rglob("*.js")):
            places[str(path.relative_to(ROOT))] = [
                (number, line.strip())
                for number, line in enumerate(path.read_text().splitlines(), 1)
                if IN_JAVASCRIPT.search(line)
            ]
    return {path: lines for path, lines in places.items() if lines}


def is_part(path, name):
    return path == name or path.startswith(f"{name}/")


def reason(path):
    return next((explanation for name, explanation in ALLOWED.items() if is_part(path, name)), None)


def test_no_other_module_reads_a_wall_clock():
    assert {} == {path: lines for path, lines in found().items() if reason(path) is None}


def test_each_listed_module_reads_one():
    paths = found()
    unused = [name for name in ALLOWED if not any(is_part(path, name) for path in paths)]
    assert [] == unused


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.time()",
        "import time\nfield(default_factory=time.time)",
        "import time as t\nt.time_ns()",
        "from time import time\ntime()",
        "from time import time as wall\nwall()",
        "import datetime\ndatetime.datetime.now()",
        "from datetime import datetime\ndatetime.now(UTC)",
        "from datetime import datetime as dt\ndt.utcnow()",
        "from datetime import date\ndate.today()",
        "from app.db.clock import utcnow\nutcnow()",
        "from app.db import clock\nclock.utcnow()",
        "import time\ntime.localtime()",
    ],
)
def test_each_way_to_read_a_wall_clock_is_found(source):
    assert list(reads(source))


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.monotonic()",
        "from app.db.clock import now\nnow()",
        "from datetime import datetime\ndatetime.fromisoformat(text)",
        "loop.time()",
        "client.time()",
    ],
)
def test_other_clocks_are_not(source):
    assert not list(reads(source))
