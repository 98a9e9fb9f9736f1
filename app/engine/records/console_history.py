"""
History of consoles, as the conductors of a node have kept it.

A conductor keeps what the console has shown while it had the node, so all that may have had it are
asked, at once.
"""

from datetime import UTC, datetime
from typing import Any, NamedTuple

from app.cluster import conductors
from app.cluster.hash_ring import serving
from app.engine import rpc
from app.errors import Unavailable
from app.hardware import targets
from app.models import Node
from app.runtime import Runtime
from drivers.core.errors import InvalidDriverInfo

#: Seconds for the conductors to answer.
ANSWER_TIME = 10.0
KINDS = {"o": "output", "s": "state"}


class Record(NamedTuple):
    """A part of a console's history."""

    at: int  # milliseconds since 1970
    kind: str  # output, or state: a change of the connection, in words
    data: str  # base64
    conductor: str  # that has kept it


class History(NamedTuple):
    """Records, the oldest first."""

    records: list[Record]
    cut: bool  # whether older ones are left out
    missing: tuple[str, ...]  # conductors that have not answered


def read(
    runtime: Runtime, node: Node, since: datetime | None, until: datetime | None, size: int
) -> History:
    """
    Return the newest records between two times (naive UTC) with at most `size` bytes.

    Raises Unavailable: no conductor serves the node, none answers, or the broker is out of reach.
    """
    members = serving(node.driver, node.conductor_group, conductors.members(runtime))
    if not members:
        raise Unavailable(f"No live conductor serves driver {node.driver!r}.")
    arguments = {"since": _milliseconds(since), "until": _milliseconds(until), "size": size}
    answers = rpc.ask_all(
        runtime, members, node.uuid, "read_console_history", ANSWER_TIME, **arguments
    )
    if not answers:
        raise Unavailable("No conductor has answered about the history of the console.")
    by_place: dict[str, tuple[Any, str]] = {}  # conductors of one host have the same files
    for name, answer in sorted(answers.items()):
        for record in answer["records"]:
            by_place.setdefault(record["place"], (record, name))
    records = [
        Record(record["at"], KINDS.get(record["kind"], "state"), record["data"], name)
        for _, (record, name) in sorted(
            by_place.items(), key=lambda item: (item[1][0]["at"], item[0])
        )
    ]
    cut = any(answer["cut"] for answer in answers.values())
    total = sum(len(record.data) * 3 // 4 for record in records)
    while total > size and len(records) > 1:
        total -= len(records.pop(0).data) * 3 // 4
        cut = True
    missing = tuple(sorted({member.name for member in members} - answers.keys()))
    return History(records, cut, missing)


def path_of(runtime: Runtime, node: Node, operation: str) -> str | None:
    """
    Return the path in the API of the history of an operation's time; operation: its UUID.

    None: the console is not enabled, or of a kind that keeps no history.
    """
    try:
        is_kept = node.console_enabled and targets.driver_of(runtime, node).console.keeps_history
    except InvalidDriverInfo:  # a driver that only conductors have
        is_kept = True
    return f"/v1/nodes/{node.uuid}/console/history?operation={operation}" if is_kept else None


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.replace(tzinfo=UTC).timestamp() * 1000)
