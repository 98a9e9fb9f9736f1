"""
Holds: their rows, the checks that enforce their effects, and their expiry.

A hold is created, changed and ended in a transaction that locks its node. So it is either before or
after a request that starts an operation: the request is refused, or its operation is not
interrupted.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import and_, false, func, or_, select
from sqlalchemy.orm import Session

from app.db.clock import fixed, moment, now
from app.db.prepared import Prepared
from app.db.transactions import retrying
from app.errors import Conflict, Invalid, NodeHeld
from app.identity.caller import Caller
from app.inventory import history
from app.lifecycle.hold_kinds import Effect, kinds_with
from app.models import Hold, Node
from app.models.hold import in_effect
from app.observe import log
from app.process import kill_points
from app.rows import row_changes
from app.runtime import Runtime
from app.text.sentences import enumerated

logger = log.get(__name__)

#: Most holds on a node.
MOST = 20
#: Most holds in the message of a refusal.
MOST_NAMED = 3
#: Most holds that one transaction ends.
BATCH = 500
#: Type of the events in the history of a node.
EVENT = "hold"
_SYSTEM = Caller()
#: Key in the info of a session of the holds that `preload` has read, by the id of their node.
_PRELOADED = "holds"

_EXPIRED = Hold.expires_at <= fixed(now())
#: Condition of a hold whose project no longer owns or leases the node.
_UNRELATED = and_(
    Hold.owner.is_not(None),
    Hold.owner.is_distinct_from(Node.owner),
    Hold.owner.is_distinct_from(Node.lessee),
)
_OVER = or_(_EXPIRED, _UNRELATED)
_OF_NODES = select(Hold.id).join(Node, Node.id == Hold.node_id)
#: Selects a row while there is a hold to end.
EXPIRED_ONE = Prepared(_OF_NODES.where(_OVER).limit(1))


def create(session: Session, node: Node, fields: Mapping[str, Any], caller: Caller) -> Hold:
    """
    Set a hold on a node, whose row is locked; the node may be reserved for an operation.

    fields: uuid, kind, reason, and expires_at or expires_in, validated against the API's schema.

    Raises Invalid, AlreadyExists.
    Raises Conflict: the node has as many holds as it may have.
    """
    fields = _with_expiry(session, fields)
    count = session.scalar(select(func.count()).where(Hold.node_id == node.id))
    if (count or 0) >= MOST:
        raise Conflict(f"Node {node.uuid} has {MOST} holds, the most of a node: end one of them.")
    hold = row_changes.make(Hold, {**fields, "node_id": node.id})
    hold.owner, hold.user_id, hold.user_name = caller.project_id, caller.user_id, caller.user_name
    row_changes.add(session, hold)
    _record(session, node, hold, "set", caller)
    return hold


def change(session: Session, hold: Hold, values: Mapping[str, Any], caller: Caller) -> None:
    """
    Change the reason or the expiry of a hold, whose row is locked.

    Raises Invalid.
    Raises Conflict: the hold has expired.
    """
    node = _locked_node(session, hold)
    if session.scalar(select(Hold.id).where(Hold.id == hold.id, in_effect())) is None:
        raise Conflict(f"Hold {hold.uuid} has expired: set a new one.")
    values = _with_expiry(session, values)
    row_changes.change(session, hold, values)
    _record(session, node, hold, "changed", caller)


def remove(session: Session, hold: Hold, caller: Caller) -> None:
    """End a hold, whose row is locked."""
    _record(session, _locked_node(session, hold), hold, "ended", caller)
    session.delete(hold)


def end_expired(runtime: Runtime) -> int:
    """
    Delete the holds that have expired, or whose project has no rights on the node any more, and
    return their number.
    """
    number = 0
    while count := retrying(lambda: _end_batch(runtime)):
        number += count
    return number


def _end_batch(runtime: Runtime) -> int:
    """Delete some of these holds; those whose row or node another transaction has locked stay."""
    with runtime.transaction() as session:
        expired = session.execute(
            select(Hold, Node, func.coalesce(_EXPIRED, false()))
            .join(Node, Node.id == Hold.node_id)
            .where(_OVER)
            .order_by(Hold.expires_at)
            .limit(BATCH)
            .with_for_update(skip_locked=True)
        ).all()
        for hold, node, has_expired in expired:
            _record(session, node, hold, "expired" if has_expired else "ended", _SYSTEM)
            session.delete(hold)
        session.flush()
        kill_points.reach("acted", "hold")
    return len(expired)


def check(session: Session, node: Node, effect: Effect) -> None:
    """Raises NodeHeld: the node has a hold with this effect."""
    if node_holds := with_effect(session, node, effect):
        raise NodeHeld(node.uuid, refusal(node_holds))


def check_uuids(session: Session, uuids: Collection[str], effect: Effect) -> None:
    """Raises NodeHeld: one of the nodes has a hold with this effect."""
    for uuid, node_holds in _by_node(session, effect, Node.uuid.in_(uuids)).items():
        raise NodeHeld(uuid, refusal(node_holds))


def with_effect(session: Session, node: Node, effect: Effect) -> Sequence[Hold]:
    """Return the holds of a node that have an effect, the oldest first."""
    kinds = kinds_with(effect)
    preloaded: Mapping[int, list[Hold]] | None = session.info.get(_PRELOADED)
    if preloaded is not None:
        return [hold for hold in preloaded.get(node.id, ()) if hold.kind in kinds]
    query = select(Hold).where(Hold.node_id == node.id, Hold.kind.in_(kinds), in_effect())
    return session.scalars(query.order_by(Hold.id)).all()


def preload(session: Session) -> None:
    """Read all holds at once, for checks of many nodes in this session."""
    holds_by_node: dict[int, list[Hold]] = {}
    for hold in session.scalars(select(Hold).where(in_effect()).order_by(Hold.id)):
        holds_by_node.setdefault(hold.node_id, []).append(hold)
    session.info[_PRELOADED] = holds_by_node


def _by_node(session: Session, effect: Effect, *conditions: Any) -> Mapping[str, list[Hold]]:
    holds_by_node: dict[str, list[Hold]] = {}
    query = select(Node.uuid, Hold).join(Hold, Hold.node_id == Node.id)
    query = query.where(Hold.kind.in_(kinds_with(effect)), in_effect(), *conditions)
    for uuid, hold in session.execute(query.order_by(Hold.id)):
        holds_by_node.setdefault(uuid, []).append(hold)
    return holds_by_node


def of_node(session: Session, node: Node) -> Sequence[Hold]:
    """Return the holds of a node that have not expired, the oldest first."""
    query = select(Hold).where(Hold.node_id == node.id, in_effect())
    return session.scalars(query.order_by(Hold.id)).all()


def described(hold: Hold) -> str:
    """Describe a hold: its kind, creator, times and reason."""
    of_project = f" of project {hold.owner}" if hold.owner else ""
    creator = hold.user_name or hold.user_id or "an unnamed user"
    expiry = f"until {_moment(hold.expires_at)}" if hold.expires_at else "until it is ended"
    return (
        f"{hold.kind} hold {hold.uuid} by {creator}{of_project} since {_moment(hold.created_at)}"
        f" {expiry}, because: {hold.reason}"
    )


def refusal(holds: Sequence[Hold]) -> str:
    """Describe the holds that refuse a request."""
    phrases = [described(hold) for hold in holds[:MOST_NAMED]]
    return enumerated(phrases, MOST_NAMED, separator="; ", total=len(holds))


def _moment(time: datetime) -> str:
    return f"{time.isoformat(timespec='seconds')}Z"


def _locked_node(session: Session, hold: Hold) -> Node:
    return session.get_one(Node, hold.node_id, with_for_update=True)


def _with_expiry(session: Session, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """
    Return the fields with the time of the expiry in place of the seconds until then.

    Raises Invalid: both are given, or the time is past.
    """
    seconds, time = fields.get("expires_in"), fields.get("expires_at")
    current_time = moment(session)
    if seconds is not None:
        if time is not None:
            raise Invalid("expires_in: not with expires_at: give one of both")
        other_fields = {name: value for name, value in fields.items() if name != "expires_in"}
        return {**other_fields, "expires_at": current_time + timedelta(seconds=seconds)}
    if time is not None and time <= current_time:
        raise Invalid(
            f"expires_at: {_moment(time)} must be in the future; it is {_moment(current_time)}"
        )
    return fields


def _record(session: Session, node: Node, hold: Hold, change: str, caller: Caller) -> None:
    """
    Record a change of a hold in the history of its node, and in the log.

    change: a past participle.
    """
    session.flush()
    session.refresh(hold)
    history.record_request(session, node, EVENT, f"Hold {change}: {described(hold)}.", caller)
    logger.info(f"hold.{change}", hold=hold.uuid, node=node.uuid, kind=hold.kind)
