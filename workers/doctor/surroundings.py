"""
What can be wrong around the rows: the schema, the clocks, Redis, files, processes.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, select

from app.db import MIGRATIONS, age, now, utcnow
from app.models import Conductor
from app.models.base import Base
from app.queue import now_queue_of, queue_of
from app.services import conductors, restoration
from drivers.images import files
from workers import boot_files, permissions
from workers.doctor.checks import Finding, Patient
from workers.lease import RELEASE
from workers.witness import Witness

#: Seconds by which clocks may differ before it is worth a word.
SKEW = 5.0
#: Seconds for conductors to answer a call.
CALL = 1.0


def schema(patient: Patient) -> Iterator[Finding]:
    """The database is of another release, or was changed by hand."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    script = ScriptDirectory.from_config(config)
    head = script.get_current_head()
    known = {each.revision for each in script.walk_revisions()}
    with patient.runtime.engine.connect().execution_options(writes=False) as connection:
        revision = MigrationContext.configure(connection).get_current_revision()
        if revision != head:
            newer = revision is not None and revision not in known
            yield Finding(
                "schema",
                f"the database is at revision {revision or 'none'}, this release at {head}: "
                + ("it is of a later release; use that" if newer else "run `ingot db upgrade`"),
            )
            return
        there = inspect(connection)
        for table in Base.metadata.sorted_tables:
            wanted = {column.name for column in table.columns}
            columns = there.get_columns(table.name) if there.has_table(table.name) else []
            missing = wanted - {column["name"] for column in columns}
            if missing:
                yield Finding(
                    f"table {table.name}",
                    f"it lacks {', '.join(sorted(missing))}, though the schema's revision is"
                    f" {head}: restore the database from a backup",
                )


def clocks(patient: Patient) -> Iterator[Finding]:
    """The clocks of database, Redis and this host, compared with one another."""
    with patient.runtime.reading() as session:
        before = utcnow()
        database = session.scalars(select(now())).one()
        here = before + (utcnow() - before) / 2
    yield from _skew("database", database, here)
    if patient.broker is not None:
        before = utcnow()
        seconds, micros = patient.broker.time()
        told = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
        yield from _skew(
            "redis", told + timedelta(microseconds=micros), before + (utcnow() - before) / 2
        )


def _skew(whose: str, theirs: datetime, ours: datetime) -> Iterator[Finding]:
    difference = (theirs - ours).total_seconds()
    if abs(difference) > SKEW:
        yield Finding(
            f"clock of {whose}",
            f"it is {abs(difference):.0f} s {'ahead of' if difference > 0 else 'behind'} this"
            " host's: times that are shown will confuse; liveness goes by the database's alone",
        )


def restored(patient: Patient) -> Iterator[Finding]:
    """Redis has seen a later state of the database than this one."""
    assert patient.broker is not None
    with patient.runtime.reading() as session:
        level = restoration.level(session)
    seen = Witness(patient.broker, patient.runtime.settings.broker.prefix).recall()
    if level < seen:
        yield Finding(
            "database",
            f"it was restored from a backup: its water mark is {level}, and {seen} was seen; when"
            " a conductor starts, work under way ends, and all nodes that it may be wrong about go"
            " into maintenance",
        )


def queues(patient: Patient) -> Iterator[Finding]:
    """Messages to conductors that are long dead; what they hint at is sent anew by the rows."""
    broker = patient.broker
    assert broker is not None
    with patient.runtime.reading() as session:
        living = set(
            session.scalars(
                select(Conductor.hostname).where(age(Conductor.heartbeat_at) < patient.patience)
            )
        )
    if not living:  # the service is stopped, and goes on with them
        return
    theirs = {queue for name in living for queue in (queue_of(name), now_queue_of(name))}
    shared = now_queue_of("").replace("..", ".")
    for key in sorted(each.decode() for each in broker.scan_iter("conductor.*", _type="list")):
        if key not in theirs and key != shared:
            yield Finding(
                f"queue {key}", f"{broker.llen(key)} messages to a conductor that is not there", key
            )


def drop_queue(patient: Patient, finding: Finding) -> None:
    assert patient.broker is not None
    patient.broker.delete(finding.key)


def leases(patient: Patient) -> Iterator[Finding]:
    """Leases that outlive their holder, and so keep a node from everybody."""
    broker = patient.broker
    assert broker is not None
    suspects = _strange_leases(patient)
    if suspects:  # that of a process which has just died runs out by itself
        time.sleep(patient.runtime.settings.conductor.lease_ttl + 0.5)
        again = _strange_leases(patient)
        suspects = {key: value for key, value in again.items() if suspects.get(key) == value}
    for key, value in suspects.items():
        node, holder = key.rpartition(":")[2], value.partition(":")[0]
        lasts = "does not run out" if broker.pttl(key) == -1 else "is renewed all the time"
        yield Finding(
            f"lease of node {node}",
            f"it {lasts}, though its holder {holder} is no conductor's incarnation: nobody else can"
            " give this machine orders",
            (key, value),
        )


def _strange_leases(patient: Patient) -> Mapping[str, str]:
    """key -> value of those without an end, and those whose holder is no live conductor."""
    broker = patient.broker
    assert broker is not None
    with patient.runtime.reading() as session:
        living = conductors.living(session, patient.patience)
    found = {}
    for key in broker.scan_iter(f"{patient.runtime.settings.broker.prefix}:lease:*"):
        value = broker.get(key)
        if value is None:
            continue
        holder = value.decode().rpartition(":")[0]  # type: ignore[union-attr]
        alive = holder in living or holder.startswith("now-")
        if not alive or broker.pttl(key) == -1:
            found[key.decode()] = value.decode()  # type: ignore[union-attr]
    return found


def drop_lease(patient: Patient, finding: Finding) -> None:
    assert patient.broker is not None
    patient.broker.eval(RELEASE, 1, *finding.key)


def names(patient: Patient) -> Iterator[Finding]:
    """Two processes of one name: one of them has been replaced, and does not notice."""
    assert patient.messages is not None
    answers = patient.messages.control.ping(timeout=CALL)
    counts = Counter(name for answer in answers for name in answer)
    for name, count in sorted(counts.items()):
        if count > 1 and name.startswith("conductor@"):
            yield Finding(
                f"conductor {name.partition('@')[2]}",
                f"{count} processes have this name, and take each other's messages: give each its"
                " own (`ingot conductor --name`)",
            )


def useless_files(patient: Patient) -> Iterator[Finding]:
    """Files of machines that do not need them, below the folders of this host."""
    for folder in boot_files.useless(patient.runtime):
        node = files.node_of(folder)
        yield Finding(str(folder), f"node {node} has no use of these files any more", folder)


def delete_files(patient: Patient, finding: Finding) -> None:
    if finding.key in boot_files.useless(patient.runtime):
        files.remove(patient.runtime.settings.options(), finding.key)


def wide_files(patient: Patient) -> Iterator[Finding]:
    """The data directory and what is private in it, where other users of this host may read it."""
    settings = patient.runtime.settings
    for each in permissions.wide(settings) if settings.default.data_dir else ():
        yield Finding(
            str(each.path),
            f"other users may use it, its mode is {each.mode:04o}, and it holds passwords of BMCs:"
            f" `chmod {each.right:04o}`",
            each,
        )


def tighten(patient: Patient, finding: Finding) -> None:
    finding.key.tighten()
