"""The tables of docs/reliability.md, from what was counted."""

import os
import platform
import time

from tests.chaos.judge import ROWS


def rows(figures):
    """A Markdown table of name -> figure."""
    lines = ["| what | count |", "| --- | ---: |"]
    return "\n".join([*lines, *(f"| {name} | {value} |" for name, value in figures.items())])


def shown(facts, storm, ledger, verdict):
    """The whole result of a run as Markdown."""
    counts = verdict.counts
    must = {f"**{text}**": len(verdict.wrong.get(name, ())) for name, text in ROWS.items()}
    asked = {
        "requests sent": ledger.counts["sent"],
        "of these without an answer, or with a 5xx, and repeated": ledger.counts["unanswered"]
        + sum(n for name, n in ledger.counts.items() if name.startswith("answered")),
        "accepted": ledger.counts["accepted"],
        "refused (state, lock)": ledger.counts["refused"],
    }
    proofs = {
        "late writes of given-up workers that the fence refused": counts["refused writes"],
        "steps taken over from the dead": counts["takeovers"],
        "orders under way when their process was stopped (second starts, allowed for)": counts[
            "orders under way when their process was stopped"
        ],
    }
    plain = {
        name: counts.get(name, 0)
        for name in (
            "operations", "operations succeeded", "operations failed", "operations aborted",
            "claims", "nodes", "nodes where asked", "nodes in a failure that a fault explains",
            "agent commands", "image writes", "RAID creations", "firmware updates",
        )
    }  # fmt: skip
    parts = [
        rows(facts),
        "What must be 0:",
        rows(must),
        "That the protection was put to the test:",
        rows(proofs),
        "What was asked and done:",
        rows(asked | plain),
        f"What happened to it, {storm.counts.total()} times:",
        rows(dict(sorted(storm.counts.items(), key=lambda each: -each[1]))),
    ]
    return "\n\n".join(parts) + "\n"


#: What surrounds each section of the page that a run writes.
BEGIN, END = "<!-- {0}: written by `make chaos` -->", "<!-- end of {0} -->"


def write(page, section, text):
    """Put the result of a run into its section of the page; the rest of it stays as it is."""
    begin, end = BEGIN.format(section), END.format(section)
    before, _, rest = page.read_text().partition(begin)
    _, _, after = rest.partition(end)
    dated = f"{time.strftime('%Y-%m-%d', time.gmtime())}, on {machine()}:"
    page.write_text(f"{before}{begin}\n\n{dated}\n\n{text}\n{end}{after}")


def machine():
    """What it ran on."""
    about = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    load = f"load average {os.getloadavg()[1]:.1f} at the end"
    return f"{platform.system()} {platform.machine()}, {about}, {load}"
