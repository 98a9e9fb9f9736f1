"""The table of docs/reliability.md, from the rows of a run."""

from tests.hosts.judge import PROMISE, ROWS

HEAD = (
    "fault", "s", "accepted", "longest without a read, s: any host; each",
    "longest without a write, s: any host; each", "longest stand of an operation, s",
    "at rest after, s", "lost", "doubled", "stuck",
)  # fmt: skip
#: Column -> rows of the verdict that it counts.
COUNTED = {
    "lost": ("lost", "astray", "unexplained", "stale", "events"),
    "doubled": ("second", "interleaved"),
    "stuck": ("stuck", "late", "idle"),
}


def shown(lines, facts):
    """The lines of rows as a table in Markdown. facts: name -> figure of the whole run."""
    align = ["---", *["---:"] * (len(HEAD) - 1)]
    head = ["| " + " | ".join(HEAD) + " |", "| " + " | ".join(align) + " |"]
    about = ", ".join(f"{name} {value}" for name, value in facts.items())
    return f"{about}.\n\n" + "\n".join([*head, *lines]) + "\n"


def line(row):
    wrong = row.verdict.wrong
    counts = [sum(len(wrong.get(name, ())) for name in names) for names in COUNTED.values()]
    cells = [
        row.phase.about, f"{row.seconds:.0f}", row.accepted, _gaps(row.reads), _gaps(row.writes),
        f"{row.verdict.counts['standing'][0]:.1f}", f"{row.rest_seconds:.0f}", *counts,
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def _gaps(gaps):
    return "; ".join(f"{gap:.1f}" for gap in gaps)


def complaints(row):
    """Violations of a row, as lines; before them its longest stand, if it is beyond the promise."""
    took, sentence = row.verdict.counts["standing"]
    slowest = [f"slowest: {sentence}"] if took > PROMISE else []
    return slowest + [
        f"WRONG ({ROWS[name]}): {sentence}"
        for name, sentences in row.verdict.wrong.items()
        for sentence in sentences
    ]
