"""
Proofs that audit records were not changed, added or removed: creation and verification.

Each record has an HMAC of the columns that its writer knows, so that writers wait for none of each
other. Every few minutes a checkpoint is made of a range of records: HMAC of their digests, times
and outcomes, and of the checkpoint before. The keys are derived from a data key, which is encrypted
with the master key: a writer of the database who lacks it can make neither.

A range is closed when no transaction can add a record to it any more: numbers are given in an order
other than that of commits. Records are deleted by whole ranges (`workers.periodic.pruning`), those
of successes by age, others also by number. The proofs of deleted ranges stay.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import Connection, func, insert, or_, select, text, update
from sqlalchemy.engine import Row

from app.audit import audit_records
from app.config.monitoring_settings import Audit
from app.db.clock import age
from app.db.sealing import REFRESH, keyring_of
from app.models import AuditCheckpoint, AuditRecord, DataKey, Outcome

#: Most records in a range, and seconds until a record may be in one.
MOST, SETTLED = 20_000, 60.0
#: Records that are read at once.
_BATCH = 2000
#: Most findings of a kind that are listed.
_LISTED = 20

_R: Any = AuditRecord.__table__.c
_C: Any = AuditCheckpoint.__table__.c
_XMAX = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
_XMIN = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
#: Columns of a record that a checkpoint proves; its HMAC proves the others.
_PROVEN = (_R.id, _R.created_at, _R.outcome, _R.status, _R.mac)


def advance(connection: Connection) -> str | None:
    """
    Open the next checkpoint, or close the open one; return the HMAC of one that was closed.

    For one process at a time. Does nothing unless all processes can sign their records.
    """
    key_age = connection.scalar(select(func.max(age(DataKey.created_at))).where(DataKey.bound))
    if key_age is None or key_age < 2 * REFRESH or not keyring_of(connection.dialect).binds:
        return None
    checkpoint = _last(connection)
    if checkpoint is None or checkpoint.mac is not None:
        checkpoint = _open(connection, checkpoint)
    if checkpoint is None or not _is_complete(connection, checkpoint.horizon):
        return None
    return _close(connection, checkpoint)


def _last(connection: Connection) -> Row[object] | None:
    return connection.execute(select(_C).order_by(_C.first.desc()).limit(1)).one_or_none()


def _open(connection: Connection, checkpoint: Row[object] | None) -> Row[object] | None:
    """Insert a checkpoint for the settled records since the last one, if there are any."""
    if checkpoint is None:  # records without a HMAC are older than the first key
        first_id = (connection.scalar(select(func.max(_R.id)).where(_R.mac.is_(None))) or 0) + 1
    else:
        first_id = checkpoint.last + 1
    unsettled = or_(
        age(_R.created_at) < SETTLED,
        (_R.outcome == Outcome.PENDING) & (age(_R.created_at) < audit_records.OPEN + SETTLED),
    )
    limit = connection.scalar(select(func.min(_R.id)).where(_R.id >= first_id, unsettled))
    covered = select(_R.id).where(_R.id >= first_id, *(() if limit is None else (_R.id < limit,)))
    end = connection.scalar(select(func.max(covered.order_by(_R.id).limit(MOST).subquery().c.id)))
    if end is None:
        return None
    horizon = connection.scalar(text(_XMAX)) if connection.dialect.name != "sqlite" else None
    values = {"first": first_id, "last": end, "horizon": horizon}
    connection.execute(insert(AuditCheckpoint).values(values))
    return _last(connection)


def _is_complete(connection: Connection, horizon: int | None) -> bool:
    """Whether no transaction that began before the range was chosen still runs."""
    return horizon is None or (connection.scalar(text(_XMIN)) or 0) >= horizon


def _close(connection: Connection, row: Row[object]) -> str | None:
    facts = _facts(connection, row.first, row.last)
    previous_mac = connection.scalar(
        select(_C.mac).where(_C.first < row.first).order_by(_C.first.desc()).limit(1)
    )
    mac = keyring_of(connection.dialect).proof(_signed(previous_mac, row.first, row.last, facts))
    values = {**facts.columns(), "mac": mac}
    connection.execute(update(AuditCheckpoint).where(_C.id == row.id).values(values))
    return mac


@dataclass
class _Facts:
    """Facts of a checkpoint about its records."""

    successes: int = 0
    others: int = 0
    newest_at: object = None
    digests: Any = field(default_factory=lambda: (hashlib.sha256(), hashlib.sha256()))

    def add(self, ident: int, created_at: Any, outcome: str, *values: object) -> None:
        succeeded = outcome == Outcome.SUCCESS
        self.successes += succeeded
        self.others += not succeeded
        self.newest_at = max(created_at, self.newest_at or created_at)
        line = [ident, created_at.isoformat(), outcome, *values]
        self.digests[not succeeded].update(orjson.dumps(line))

    def columns(self) -> dict[str, Any]:
        names = ("successes_digest", "others_digest")
        digests = {
            name: digest.hexdigest() for name, digest in zip(names, self.digests, strict=True)
        }
        return {
            "successes": self.successes,
            "others": self.others,
            "newest_at": self.newest_at,
            **digests,
        }


def _facts(connection: Connection, first_id: int, last_id: int) -> _Facts:
    facts = _Facts()
    for row in _records(connection, _PROVEN, first_id, last_id):
        facts.add(row.id, row.created_at, row.outcome, row.status, row.mac)
    return facts


def _records(
    connection: Connection, columns: Sequence[Any], first_id: int, last_id: int | None
) -> Iterator[Row[object]]:
    """Yield records in the order of their numbers. columns: the first one is `id`."""
    upto = () if last_id is None else (_R.id <= last_id,)
    while True:
        query = select(*columns).where(_R.id >= first_id, *upto).order_by(_R.id).limit(_BATCH)
        rows = connection.execute(query).all()
        yield from rows
        if len(rows) < _BATCH:
            return
        first_id = rows[-1].id + 1


def _signed(
    previous_mac: str | None, first_id: int, last_id: int, facts: _Facts | Row[object]
) -> bytes:
    if isinstance(facts, _Facts):
        values = facts.columns()
    else:
        values = {name: getattr(facts, name) for name in _Facts().columns()}
    newest = values["newest_at"]
    values["newest_at"] = newest and newest.isoformat()
    return orjson.dumps(
        [previous_mac, first_id, last_id, *(values[name] for name in sorted(values))]
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a verification."""

    records: int  # that were checked
    checkpoints: int
    unproven: int  # records from before there was a key
    head: str | None  # HMAC of the last checkpoint: keep it elsewhere
    findings: Sequence[str]  # sentences; empty: all is as it was


def verify(connection: Connection, settings: Audit, head: str | None = None) -> Verdict:
    """
    Verify all records and checkpoints. head: of an earlier verification, which must be among them.
    """
    ring = keyring_of(connection.dialect)
    findings: list[str] = []
    checkpoints = connection.execute(select(_C).where(_C.mac.is_not(None)).order_by(_C.first)).all()
    start = checkpoints[0].first if checkpoints else 1
    previous_mac: str | None = None
    end = start - 1
    tail = checkpoints[-1].last if checkpoints else 0
    is_later = (_R.id > tail) & (_R.outcome != Outcome.SUCCESS)
    later_records = connection.scalar(select(func.count()).where(is_later)) or 0
    later_records += sum(checkpoint.others for checkpoint in checkpoints)
    for row in checkpoints:
        if row.first != end + 1:
            findings.append(f"checkpoints of records {end + 1} to {row.first - 1} are missing")
        if ring.proof(_signed(previous_mac, row.first, row.last, row)) != row.mac:
            findings.append(f"the checkpoint of records {row.first} to {row.last} was changed")
        later_records -= row.others
        _compare(connection, row, settings, later_records, findings)
        previous_mac, end = row.mac, row.last
    if head is not None and head not in {checkpoint.mac for checkpoint in checkpoints}:
        findings.append("the checkpoint with the given head is missing: records after it, too")
    checked = 0
    for record in _records(connection, tuple(_R), start, None):
        checked += 1
        if record.mac is None:
            findings.append(f"record {record.id} has no proof")
        elif ring.proof(audit_records.signed({**record._mapping})) != record.mac:
            findings.append(f"record {record.id} was changed, or added by another program")
    unproven = connection.scalar(select(func.count()).where(_R.id < start)) or 0
    if len(findings) > _LISTED:
        findings[_LISTED:] = [f"and {len(findings) - _LISTED} more"]
    return Verdict(checked, len(checkpoints), unproven, previous_mac, findings)


def _compare(
    connection: Connection,
    row: Row[object],
    settings: Audit,
    later_records: int,
    findings: list[str],
) -> None:
    """Compare the records of a range with its checkpoint. later_records: others in later ranges."""
    facts = _facts(connection, row.first, row.last).columns()
    is_old = settings.keep_days and connection.scalar(
        select(age(_C.newest_at) > 86400 * settings.keep_days).where(_C.id == row.id)
    )
    surplus = settings.keep_refused and later_records >= settings.keep_refused
    for name, may_be_deleted in (("successes", is_old), ("others", is_old or surplus)):
        if facts[f"{name}_digest"] == getattr(row, f"{name}_digest"):
            continue
        if may_be_deleted and not facts[name]:
            continue
        was, is_ = getattr(row, name), facts[name]
        comparison = f"{was} records of {name} had been proven, and there are {is_}"
        explanation = "" if was != is_ else ": outcomes, times or records were changed"
        findings.append(f"records {row.first} to {row.last}: {comparison}{explanation}")
