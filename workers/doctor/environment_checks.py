"""
Checks of schema, clocks, Redis, files and processes.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Text, cast, inspect, select

from app.broker.breakers import Breakers
from app.broker.queue import Queues
from app.cluster import conductors
from app.db.clock import age, now, utcnow
from app.db.schema import MIGRATIONS
from app.db.sealing import MARK, data_key_of, keyring_of, unreadable_secret
from app.identity import roles
from app.models import Conductor
from app.models.base import Base
from app.reports import health, listeners
from app.rows import data_keys
from drivers.builtin import machine_files
from workers.conductor.lease import RELEASE
from workers.doctor.checks import Finding, Installation
from workers.periodic import boot_files
from workers.restoration import restore
from workers.restoration.restore_guard import RestoreGuard
from workers.supervisor import permissions

#: Seconds by which clocks may differ.
SKEW = 5.0
#: Seconds for conductors to answer a ping.
PING_TIMEOUT = 1.0


def schema(installation: Installation) -> Iterator[Finding]:
    """Find a database schema of another release, or one that lacks a table or column."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    script = ScriptDirectory.from_config(config)
    head = script.get_current_head()
    revisions = {script_revision.revision for script_revision in script.walk_revisions()}
    with installation.runtime.engine.connect().execution_options(writes=False) as connection:
        revision = MigrationContext.configure(connection).get_current_revision()
        if revision != head:
            newer = revision is not None and revision not in revisions
            yield Finding(
                "schema",
                f"the database is at revision {revision or 'none'}, this release at {head}: "
                + ("use the later release" if newer else "run `ingot db upgrade`"),
            )
            return
        inspector = inspect(connection)
        for table in Base.metadata.sorted_tables:
            expected_columns = {column.name for column in table.columns}
            columns = inspector.get_columns(table.name) if inspector.has_table(table.name) else []
            missing_columns = expected_columns - {column["name"] for column in columns}
            if missing_columns:
                yield Finding(
                    f"table {table.name}",
                    f"it lacks {', '.join(sorted(missing_columns))}, though the schema's revision"
                    f" is {head}: restore the database from a backup",
                )


def clocks(installation: Installation) -> Iterator[Finding]:
    """Find a clock of the database or of Redis that differs from this host's."""
    with installation.runtime.reading() as session:
        asked_at = utcnow()
        database = session.scalars(select(now())).one()
        local_time = asked_at + (utcnow() - asked_at) / 2
    yield from _skew("database", database, local_time)
    if installation.broker is not None:
        asked_at = utcnow()
        seconds, micros = installation.broker.time()
        redis_time = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
        yield from _skew(
            "redis",
            redis_time + timedelta(microseconds=micros),
            asked_at + (utcnow() - asked_at) / 2,
        )


def _skew(server: str, server_time: datetime, local_time: datetime) -> Iterator[Finding]:
    difference = (server_time - local_time).total_seconds()
    if abs(difference) > SKEW:
        yield Finding(
            f"clock of {server}",
            f"it is {abs(difference):.0f} s {'ahead of' if difference > 0 else 'behind'} this"
            " host's: displayed times are inconsistent; liveness depends on the database's alone",
        )


def restored(installation: Installation) -> Iterator[Finding]:
    """Find a restored database: its watermark is lower than the highest one in Redis."""
    assert installation.broker is not None
    with installation.runtime.read_connection() as connection:
        level = restore.level(connection)
    broker = installation.runtime.settings.broker
    reach = Breakers(broker).of_reads()
    seen_watermark = RestoreGuard(installation.broker, broker.prefix, reach).recall()
    if level < seen_watermark:
        yield Finding(
            "database",
            f"it was restored from a backup: its watermark is {level}, the highest one seen is"
            f" {seen_watermark}; when a conductor starts, active operations fail, and all nodes"
            " whose rows may be outdated enter maintenance",
        )


def silent_servers(installation: Installation) -> Iterator[Finding]:
    """Find a server of files or metrics that takes connections and does not answer."""
    for listener in listeners.listeners(installation.runtime.settings):
        if listeners.hangs(listener):
            yield Finding(
                f"{listener.name} at {listener.host}:{listener.port}",
                f"{health.HANGS}: {listener.without}. Restart its process",
            )


def queues(installation: Installation) -> Iterator[Finding]:
    """Find queues of missing conductors; their operations are sent again from the database."""
    broker = installation.broker
    assert broker is not None
    with installation.runtime.reading() as session:
        living = set(
            session.scalars(
                select(Conductor.hostname).where(age(Conductor.heartbeat_at) < installation.grace)
            )
        )
    if not living:  # the service is stopped, and uses its queues when it starts again
        return
    names = Queues(installation.runtime.settings.broker.prefix)
    known_queues = {names.shared, *map(names.steps, living), *map(names.now, living)}
    pattern = names.named("conductor.*")
    for key in sorted(queue.decode() for queue in broker.scan_iter(pattern, _type="list")):
        if key not in known_queues:
            yield Finding(
                f"queue {key}", f"{broker.llen(key)} messages to a missing conductor", key
            )


def delete_queue(installation: Installation, finding: Finding) -> None:
    assert installation.broker is not None
    installation.broker.delete(finding.key)


def leases(installation: Installation) -> Iterator[Finding]:
    """Find leases that outlive their holder, and so block a node."""
    broker = installation.broker
    assert broker is not None
    suspects = _orphan_leases(installation)
    if suspects:  # the lease of a process that has just died expires by itself
        time.sleep(installation.runtime.settings.conductor.lease_ttl + 0.5)
        later_suspects = _orphan_leases(installation)
        suspects = {
            key: value for key, value in later_suspects.items() if suspects.get(key) == value
        }
    for key, value in suspects.items():
        node, holder = key.rpartition(":")[2], value.partition(":")[0]
        lasts = "has no expiry" if broker.pttl(key) == -1 else "is renewed all the time"
        yield Finding(
            f"lease of node {node}",
            f"it {lasts}, but its holder {holder} is no conductor's incarnation: no conductor can"
            " use this machine",
            (key, value),
        )


def _orphan_leases(installation: Installation) -> Mapping[str, str]:
    """Return key -> value of leases without expiry, and of those without a live holder."""
    broker = installation.broker
    assert broker is not None
    with installation.runtime.reading() as session:
        living = conductors.living_incarnations(session, installation.grace)
    orphan_leases = {}
    for key in broker.scan_iter(f"{installation.runtime.settings.broker.prefix}:lease:*"):
        value = broker.get(key)
        if value is None:
            continue
        holder = value.decode().rpartition(":")[0]  # type: ignore[union-attr]
        has_holder = holder in living or holder.startswith("now-")
        if not has_holder or broker.pttl(key) == -1:
            orphan_leases[key.decode()] = value.decode()  # type: ignore[union-attr]
    return orphan_leases


def delete_lease(installation: Installation, finding: Finding) -> None:
    assert installation.broker is not None
    installation.broker.eval(RELEASE, 1, *finding.key)


def names(installation: Installation) -> Iterator[Finding]:
    """Find names that several conductor processes have."""
    assert installation.messages is not None
    answers = installation.messages.control.ping(timeout=PING_TIMEOUT)
    counts = Counter(name for answer in answers for name in answer)
    for name, count in sorted(counts.items()):
        if count > 1 and name.startswith("conductor@"):
            yield Finding(
                f"conductor {name.partition('@')[2]}",
                f"{count} processes have this name, and take each other's messages: give each its"
                " own (`ingot conductor --name`)",
            )


def stale_files(installation: Installation) -> Iterator[Finding]:
    """Find folders on this host with files that their node no longer needs."""
    for folder in boot_files.unused_folders(installation.runtime):
        node = machine_files.node_of(folder)
        yield Finding(str(folder), f"node {node} no longer needs these files", folder)


def delete_files(installation: Installation, finding: Finding) -> None:
    if finding.key in boot_files.unused_folders(installation.runtime):
        machine_files.remove(installation.runtime.settings.options(), finding.key)


def keys(installation: Installation) -> Iterator[Finding]:
    """Find secrets that are not encrypted, and old master keys."""
    runtime = installation.runtime
    masters = keyring_of(runtime.engine.dialect).masters
    if not masters:
        # an `ingot up` on loopback with its own database is a trial, and creates a key anyway
        if runtime.engine.dialect.name == "postgresql" or runtime.settings.is_reachable:
            yield Finding(
                "secrets",
                "there is no master key, so the database has passwords of BMCs and tokens of agents"
                " in plain text: set [database]secrets_key_file, restart all processes, and run"
                " `ingot secrets rotate`",
            )
        return
    with runtime.read_connection() as connection:
        key_rows = data_keys.rows(connection)
    if not key_rows:
        yield Finding(
            "secrets", "there is a master key, but no data key: run `ingot secrets rotate`"
        )
    elif not all(key_row.bound for key_row in key_rows):
        yield Finding(
            "data keys",
            "secrets in rows are not bound to their place yet: run `ingot secrets rotate` once all"
            " processes run this release; `ingot secrets status` shows the tables that remain",
        )
    elif any(key_row.master != masters[0].name for key_row in key_rows):
        yield Finding(
            "data keys", "some need a master key that is not the first: run `ingot secrets rotate`"
        )


def unreadable(installation: Installation) -> Iterator[Finding]:
    """Find secrets that no data key opens, by column."""
    engine = installation.runtime.engine
    if not keyring_of(engine.dialect).masters:
        return
    with installation.runtime.read_connection() as connection:
        for table in data_keys.tables():
            (key,) = table.primary_key
            for column in data_keys.secret_columns(table):
                sealed = cast(column, Text).contains(MARK, autoescape=True)
                rows = connection.execute(select(key, column).where(sealed)).all()
                readings = ((row[0], unreadable_secret({column.name: row[1]})) for row in rows)
                secrets = [(ident, *secret) for ident, secret in readings if secret is not None]
                if secrets:
                    ident, path, text = secrets[0]
                    yield Finding(
                        f"{table.name}.{column.name}",
                        f"{len(secrets)} rows have secrets that cannot be decrypted; the first is"
                        f" {path} of row {ident}, which needs data key {data_key_of(text)}: set"
                        " them again, or restore the table of data keys",
                    )


def readable_files(installation: Installation) -> Iterator[Finding]:
    """Find private files that other users of this host may read."""
    settings = installation.runtime.settings
    for wide_path in permissions.too_wide(settings) if settings.default.data_dir else ():
        yield Finding(
            str(wide_path.path),
            f"its mode is {wide_path.mode:04o}, so other users may use it, but it contains"
            f" passwords of BMCs: `chmod {wide_path.allowed_mode:04o}`",
            wide_path,
        )


def restrict(installation: Installation, finding: Finding) -> None:
    finding.key.restrict()


def unauthenticated(installation: Installation) -> Iterator[Finding]:
    """Find an API without authentication that other hosts can reach."""
    settings = installation.runtime.settings
    if settings.is_open:
        yield Finding(
            "api",
            f"as a role of its own it listens on {settings.api.host_ip} without authentication:"
            " everyone who reaches it controls all machines. Set [DEFAULT]auth_strategy, or"
            " [api]host_ip to 127.0.0.1 with an authenticating proxy in front",
        )


def links(installation: Installation) -> Iterator[Finding]:
    """Find an API whose links other hosts choose."""
    if installation.runtime.settings.trusts_host:
        yield Finding(
            "api",
            "as a role of its own it takes the links of its answers from the Host header, which a"
            " client or a cache in between may choose: set [api]public_endpoint",
        )


def administrators(installation: Installation) -> Iterator[Finding]:
    """Find local users without an administrator among them."""
    if installation.runtime.settings.default.auth_strategy != "local":
        return
    with installation.runtime.reading() as session:
        if not roles.has_admin(session):
            yield Finding(
                "users",
                "no enabled user has the role admin in the system: `ingot user create NAME`, then"
                " `ingot role grant admin --user NAME --system`",
            )
