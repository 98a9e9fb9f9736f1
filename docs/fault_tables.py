"""The generated part of simulator.md: rude faults and profiles."""

from itertools import groupby
from operator import attrgetter

from docs.markdown import Lines, code, table
from drivers.simulator.rude.profiles import PROFILES
from drivers.simulator.rude.table import ROWS


def faults() -> Lines:
    """Return a table of faults for each rule, and the table of profiles."""
    for rule, rows in groupby(sorted(ROWS.values(), key=attrgetter("rule")), attrgetter("rule")):
        yield f"### {rule}\n"
        yield from table(
            ("fault", "behaviour of the BMC", "options"),
            (
                (code(row.name), row.text, code(*(f"{k}={v!r}" for k, v in row.defaults.items())))
                for row in rows
            ),
        )
    yield "### Profiles\n"
    yield from table(
        ("profile", "faults"), ((code(name), code(*PROFILES[name])) for name in PROFILES)
    )
