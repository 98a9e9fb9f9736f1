"""
Users of PostgreSQL: one for each role of the service, with the rights that the role needs.

The owner of the tables migrates them and runs the commands of operators. Of the others, none can
change a table's definition, and none has the passwords of another's job: the user of a conductor
reads no users and tokens, that of the API grants no roles and deletes no audit record.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import Table

from app.models import Base

#: Role of the service -> its user.
USERS = {"api": "ingot_api", "conductor": "ingot_conductor", "beat": "ingot_beat"}

ALL = "SELECT, INSERT, UPDATE, DELETE"


@dataclass(frozen=True, slots=True)
class Rights:
    """Privileges of each role on a table, as in GRANT; empty: none."""

    api: str = ALL
    conductor: str = ALL
    beat: str = ""


#: Rights on the tables of the work, such as ports.
WORK = Rights()
#: Tables that requests alone change; a conductor reads them, and encrypts their older rows.
OF_REQUESTS = Rights(conductor="SELECT, UPDATE")
#: Table -> rights that differ from `WORK`.
RIGHTS: Mapping[str, Rights] = {
    "allocations": Rights(beat="SELECT (id, due_at)"),
    "answered": Rights(api="SELECT, INSERT", conductor="SELECT (id, created_at), DELETE"),
    "api_tokens": Rights(
        api="SELECT, INSERT, UPDATE (used_at, revoked_at, digest, project_id, role)",
        conductor="SELECT (id, expires_at, revoked_at), DELETE",
    ),
    "audit": Rights(
        api="SELECT, INSERT, UPDATE (outcome, status)",
        conductor="SELECT (id, created_at, outcome), DELETE",
    ),
    "beat_lease": Rights(api="SELECT", conductor="SELECT", beat="SELECT, INSERT, UPDATE"),
    "change_events": Rights(
        api="SELECT, INSERT, UPDATE (sequence)",
        beat="SELECT (sequence, created_at, type, step, after)",
    ),
    "chassis": OF_REQUESTS,
    "conductors": Rights(api="SELECT", beat="SELECT"),
    "data_keys": Rights(api="SELECT", conductor="SELECT, UPDATE (bound)", beat="SELECT"),
    "deploy_templates": OF_REQUESTS,
    "holds": Rights(beat="SELECT (id, expires_at)"),
    "inspection_rules": OF_REQUESTS,
    "memberships": Rights(api="SELECT, INSERT, DELETE", conductor=""),
    "nodes": Rights(beat="SELECT (provision_state, fault, maintenance)"),
    # the triggers of nodes read it, as the user who writes
    "notification_cursor": Rights(api="SELECT", conductor="SELECT, INSERT, UPDATE", beat="SELECT"),
    "operations": Rights(
        beat="SELECT (kind, state, queue, created_at, admitted_at, finished_at, wake_at, sent_at,"
        " sent_to)"
    ),
    "projects": Rights(api="SELECT", conductor=""),
    "role_assignments": Rights(api="SELECT", conductor=""),
    "rollouts": Rights(beat="SELECT (id, state, nodes, running, succeeded, failed)"),
    "runbooks": OF_REQUESTS,
    "sealed_tables": Rights(api="", conductor="SELECT, INSERT, UPDATE"),
    "secrets": Rights(api="SELECT", conductor=""),
    "user_groups": Rights(api="SELECT", conductor=""),
    "users": Rights(api="SELECT, INSERT, UPDATE (updated_at)", conductor=""),
    "watermark": Rights(api="", conductor="SELECT, INSERT, UPDATE"),
    "webhooks": Rights(
        conductor="SELECT, UPDATE", beat="SELECT (id, enabled, due_at, failing_since)"
    ),
}


def statements() -> Iterator[str]:
    """
    Return the statements that give the users of the roles exactly their rights.

    For the owner of the tables, in one transaction, after each migration.
    """
    users = ", ".join(USERS.values())
    for kind in ("TABLES", "SEQUENCES"):
        yield f"REVOKE ALL ON ALL {kind} IN SCHEMA public FROM {users}"
    for name, table in sorted(Base.metadata.tables.items()):
        rights = RIGHTS.get(name, WORK)
        for role, user in USERS.items():
            privileges = getattr(rights, role)
            if not privileges:
                continue
            yield f"GRANT {privileges} ON {name} TO {user}"
            if "INSERT" in privileges and (sequence := _sequence_of(table)):
                yield f"GRANT USAGE ON SEQUENCE {sequence} TO {user}"


def _sequence_of(table: Table) -> str | None:
    """Return the sequence of a table's generated key, by PostgreSQL's rule for its name."""
    column = table.autoincrement_column
    return None if column is None else f"{table.name}_{column.name}_seq"
