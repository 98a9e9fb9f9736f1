"""
Users of PostgreSQL: one for each role of the service, with the rights that the role needs.

The owner of the tables migrates them and runs the commands of operators. Of the others, none can
change a table's definition, and none has the passwords of another's job: the user of a conductor
reads no passwords and tokens, that of the API grants no roles and deletes no audit record.

Triggers (`GUARDS`) refuse changes by their values, also to users that are members of these: the API
makes sessions but no tokens, and changes the members of the OpenID provider's groups only;
audit records are deleted by age.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Table

from app.config.settings import Settings
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
    "answered": Rights(
        api="SELECT, INSERT, UPDATE (status, location, etag, body)",
        conductor="SELECT (id, caller, key, created_at, body), UPDATE (body), DELETE",
    ),
    "api_tokens": Rights(
        api="SELECT, INSERT, UPDATE (used_at, revoked_at, digest, project_id, role)",
        conductor="SELECT (id, expires_at, revoked_at), DELETE",
    ),
    "audit": Rights(
        api="SELECT, INSERT, UPDATE (outcome, status, requests)",
        conductor="SELECT (id, created_at, outcome, status, mac), DELETE",
    ),
    "audit_checkpoints": Rights(api="", conductor="SELECT, INSERT, UPDATE"),
    # beat looks for passes that are due; the exporter beside it counts
    "baseline_nodes": Rights(api="SELECT, DELETE", beat="SELECT (baseline_id, state)"),
    "baselines": Rights(conductor="SELECT, UPDATE", beat="SELECT (id, name, due_at)"),
    "beat_lease": Rights(api="SELECT", conductor="SELECT", beat="SELECT, INSERT, UPDATE"),
    "benchmarks": Rights(api="SELECT, DELETE"),
    "change_events": Rights(
        api="SELECT, INSERT, UPDATE (sequence)",
        beat="SELECT (sequence, created_at, type, step, after)",
    ),
    "chassis": OF_REQUESTS,
    "conductors": Rights(
        api="SELECT, UPDATE (drained_at, drain_reason, updated_at)", beat="SELECT"
    ),
    "data_keys": Rights(api="SELECT", conductor="SELECT, UPDATE (bound)", beat="SELECT"),
    "deploy_templates": OF_REQUESTS,
    # the API takes events, and has subscriptions deleted; beat looks for work
    "event_subscriptions": Rights(
        api="SELECT, UPDATE (node_id, departed, departed_at, due_at, received_at, hints,"
        " hint_due_at), DELETE",
        beat="SELECT (id, node_id, hint_due_at)",
    ),
    "holds": Rights(beat="SELECT (id, node_id, owner, expires_at)"),
    "inspection_rules": OF_REQUESTS,
    "memberships": Rights(api="SELECT, INSERT, DELETE", conductor="SELECT"),
    "networks": OF_REQUESTS,
    "node_refreshes": Rights(api="SELECT, DELETE"),
    # the exporter beside a beat shows the readings
    "node_sensors": Rights(api="SELECT, DELETE", beat="SELECT (node_id, read_at, readings)"),
    "nodes": Rights(
        beat="SELECT (id, uuid, name, owner, lessee, operation_id, reservation, provision_state,"
        " fault, maintenance)"
    ),
    # the triggers of nodes read it, as the user who writes
    "notification_cursor": Rights(api="SELECT", conductor="SELECT, INSERT, UPDATE", beat="SELECT"),
    "operations": Rights(
        beat="SELECT (node_id, kind, state, queue, created_at, admitted_at, finished_at, wake_at,"
        " deadline_at, claimed_by, sent_at, first_sent_at, sent_to, id)"
    ),
    "periodic_passes": Rights(api="SELECT, DELETE", beat=ALL),
    "power_update_cursor": Rights(api="", conductor="SELECT, INSERT, UPDATE"),
    "projects": Rights(api="SELECT", conductor="SELECT"),
    # a lock of the row needs the right to change a column of it
    "quotas": Rights(
        conductor="SELECT, UPDATE (updated_at)", beat="SELECT (id, project, node_limit)"
    ),
    "role_assignments": Rights(api="SELECT", conductor="SELECT"),
    "rollouts": Rights(beat="SELECT (id, state, nodes, running, succeeded, failed)"),
    "runbooks": OF_REQUESTS,
    "sealed_tables": Rights(api="", conductor="SELECT, INSERT, UPDATE"),
    # both may end an operation; reports are deleted by age
    "sanitation_reports": Rights(api="SELECT, INSERT", conductor="SELECT, INSERT, DELETE"),
    "secrets": Rights(api="SELECT", conductor=""),
    "switches": Rights(conductor="SELECT, UPDATE", beat="SELECT (id)"),
    "user_groups": Rights(api="SELECT", conductor=""),
    "users": Rights(
        api="SELECT, INSERT, UPDATE (updated_at)", conductor="SELECT (id, uuid, enabled)"
    ),
    "vault_secrets": Rights(
        api="SELECT, INSERT, UPDATE", conductor="SELECT, INSERT, UPDATE, DELETE"
    ),
    "watermark": Rights(api="", conductor="SELECT, INSERT, UPDATE"),
    "webhooks": Rights(
        conductor="SELECT, UPDATE", beat="SELECT (id, enabled, due_at, failing_since)"
    ),
}


#: Whether the current user is not the owner of the tables. Superusers have the owner's rights.
_LIMITED = (
    "NOT pg_has_role(current_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE')"
)
#: Table -> operations, and what is refused to users other than the owner: (condition, message).
GUARDS: Mapping[str, tuple[str, Sequence[tuple[str, str]]]] = {
    "api_tokens": (
        "INSERT OR UPDATE OR DELETE",
        (
            (
                (
                    "TG_OP = 'DELETE' AND coalesce(OLD.revoked_at, OLD.expires_at, 'infinity')"
                    " > now() AT TIME ZONE 'utc'"
                ),
                "tokens are deleted after their end",
            ),
            ("TG_OP = 'INSERT' AND NEW.name IS DISTINCT FROM 'session'", "only sessions are made"),
            (
                (
                    "TG_OP = 'INSERT' AND coalesce(NEW.expires_at, 'infinity')"
                    " > now() AT TIME ZONE 'utc' + interval '366 days'"
                ),
                "a session ends within a year",
            ),
            (
                (
                    "TG_OP = 'UPDATE' AND OLD.name IS DISTINCT FROM 'session'"
                    " AND (NEW.digest, NEW.project_id, NEW.role)"
                    " IS DISTINCT FROM (OLD.digest, OLD.project_id, OLD.role)"
                ),
                "scope, role and digest of a token are fixed",
            ),
            (
                (
                    "TG_OP = 'UPDATE' AND OLD.revoked_at IS NOT NULL"
                    " AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at"
                ),
                "a revoked token stays so",
            ),
        ),
    ),
    "memberships": (
        "INSERT OR UPDATE OR DELETE",
        (
            (
                (
                    "NOT EXISTS (SELECT FROM user_groups WHERE"
                    " id = coalesce(NEW.group_id, OLD.group_id)"
                    " AND name = ANY (ARRAY[{groups}]::text[]))"
                ),
                "only members of the groups of [oidc]group_map are changed",
            ),
        ),
    ),
    "audit": (
        "UPDATE OR DELETE",
        (
            (
                (
                    "TG_OP = 'DELETE' AND OLD.created_at > now() AT TIME ZONE 'utc' - CASE"
                    " WHEN OLD.outcome <> 'success' THEN interval '1 hour' ELSE {kept} END"
                ),
                "audit records are deleted by age",
            ),
            (
                "TG_OP = 'UPDATE' AND OLD.outcome <> NEW.outcome AND OLD.outcome <> 'pending'",
                "an outcome is recorded once",
            ),
            (
                "TG_OP = 'UPDATE' AND OLD.requests <> NEW.requests AND OLD.auth <> 'agent'",
                "only requests of agents are counted",
            ),
        ),
    ),
}


def statements(settings: Settings) -> Iterator[str]:
    """
    Return the statements that give the users of the roles exactly their rights.

    For the owner of the tables, in one transaction, after each migration, and after a change of
    `[oidc]group_map` or `[audit]keep_days`, which are part of the guards.
    """
    yield from _rights()
    yield from _guards(settings)


def _guards(settings: Settings) -> Iterator[str]:
    groups = sorted({*settings.oidc.group_map.values()})
    days = settings.audit.keep_days
    values = {
        "groups": ", ".join(map(_literal, groups)),
        "kept": f"interval '{days:d} days'" if days else "interval '1000 years'",
    }
    for table, (operations, refusals) in GUARDS.items():
        checks = "".join(
            f" IF ({condition.format(**values)}) THEN RAISE insufficient_privilege USING"
            f" MESSAGE = {_literal(message)}; END IF;"
            for condition, message in refusals
        )
        yield (
            f"CREATE OR REPLACE FUNCTION guard_{table}() RETURNS trigger LANGUAGE plpgsql"
            # a temporary table of the user must not stand for one of these
            " SET search_path = public, pg_temp AS"
            f" $$ BEGIN IF {_LIMITED} THEN{checks} END IF;"
            " IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; RETURN NEW; END $$"
        )
        yield f"DROP TRIGGER IF EXISTS guard ON {table}"
        yield (
            f"CREATE TRIGGER guard BEFORE {operations} ON {table} FOR EACH ROW"
            f" EXECUTE FUNCTION guard_{table}()"
        )


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _rights() -> Iterator[str]:
    """Return the statements that revoke all rights, and grant `RIGHTS`."""
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
