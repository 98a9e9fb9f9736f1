"""The tables of docs/reliability.md, from the figures of a run."""

import os
import platform
import time

from tests.chaos.judge import ROWS


def rows(figures):
    """Markdown table of name -> figure."""
    lines = ["| measure | count |", "| --- | ---: |"]
    return "\n".join([*lines, *(f"| {name} | {value} |" for name, value in figures.items())])


def shown(facts, storm, ledger, verdict):
    """The whole result of a run, as Markdown."""
    counts = verdict.counts
    must = {f"**{text}**": len(verdict.wrong.get(name, ())) for name, text in ROWS.items()}
    requests = {
        "requests sent": ledger.counts["sent"],
        "of these without an answer, or with a 5xx, and retried": ledger.counts["unanswered"]
        + sum(n for name, n in ledger.counts.items() if name.startswith("answered")),
        "accepted": ledger.counts["accepted"],
        "refused (state, lock)": ledger.counts["refused"],
    }
    proofs = {
        "late writes of workers declared dead, refused by the fence": counts["refused writes"],
        "steps taken over from dead conductors": counts["takeovers"],
        "orders pending when their process was stopped (accepted second starts)": counts[
            "orders under way when their process was stopped"
        ],
        **{
            name: counts[name]
            for name in (
                "updates in doubt since their conductor died",
                "visits of stream readers",
                "absences of the webhook's receiver",
                "events that the webhook's receiver got again",
            )
        },
    }
    plain = {
        name: counts.get(name, 0)
        for name in (
            "operations", "operations succeeded", "operations failed", "operations aborted",
            "claims", "holds", "nodes", "nodes in the requested state", "nodes in a failure caused by an injected fault",
            "change events", "agent commands", "image writes", "RAID creations", "firmware updates",
        )
    }  # fmt: skip
    parts = [
        rows(facts),
        "Must be 0:",
        rows(must),
        "Evidence that the protection was exercised:",
        rows(proofs),
        "Requests and work:",
        rows(requests | plain),
        f"Disturbances, {storm.counts.total()} in total:",
        rows(dict(sorted(storm.counts.items(), key=lambda item: -item[1]))),
    ]
    return "\n\n".join(parts) + "\n"


#: Lines around each section of the page that a run writes.
BEGIN, END = "<!-- {0}: written by `make {1}` -->", "<!-- end of {0} -->"


def write(page, section, text, target="chaos"):
    """Replace a section of the page, written by a target of make; the rest of it stays."""
    begin, end = BEGIN.format(section, target), END.format(section)
    head, _, body = page.read_text().partition(begin)
    _, _, tail = body.partition(end)
    dated = f"{time.strftime('%Y-%m-%d', time.gmtime())}, on {machine()}:"
    page.write_text(f"{head}{begin}\n\n{dated}\n\n{text}\n{end}{tail}")


def machine():
    """The machine of the run."""
    about = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    load = f"load average {os.getloadavg()[1]:.1f} at the end"
    return f"{platform.system()} {platform.machine()}, {about}, {load}"
