"""Holds that baselines set: at most one on a node by each baseline."""

from collections.abc import Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.errors import Conflict
from app.identity.caller import Caller
from app.inventory import compliance, holds
from app.lifecycle.hold_kinds import HoldKind
from app.models import Baseline, BaselineNode, Hold, Node
from app.observe import log

logger = log.get(__name__)

#: Most characters of a hold's creator.
LONGEST_NAME = 255


def hold(
    session: Session,
    baseline: Baseline,
    row: BaselineNode,
    kind: HoldKind,
    differences: Sequence[Mapping[str, object]],
) -> None:
    """
    Hold the node of a comparison for its differences, unless the baseline holds it already.

    The caller has locked the row of the node. A hold of the kind hardware takes the place of one of
    the kind scheduling.
    """
    existing_kind = _kind_of(session, row)
    if existing_kind in (kind, HoldKind.HARDWARE):
        return
    if existing_kind is not None:
        end(session, baseline, row)
    node = session.get_one(Node, row.node_id)
    fields = {"kind": kind, "reason": reason(baseline, differences)}
    try:
        row.hold_uuid = holds.create(session, node, fields, _caller(baseline)).uuid
    except Conflict as error:  # it has holds enough to be held anyway
        logger.warning(
            "baseline.not_held", node=node.uuid, baseline=baseline.name, detail=str(error)
        )


def reason(baseline: Baseline, differences: Sequence[Mapping[str, object]]) -> str:
    """Describe differences from a baseline, in one phrase."""
    return f"not as baseline {baseline.name} expects: {compliance.summary(differences)}"


def end(session: Session, baseline: Baseline, row: BaselineNode) -> None:
    """End the hold that a comparison has set; one that a request is changing stays for now."""
    if row.hold_uuid is None:
        return
    query = select(Hold).where(Hold.uuid == row.hold_uuid).with_for_update(skip_locked=True)
    existing_hold = session.scalar(query)
    if existing_hold is not None:
        holds.remove(session, existing_hold, _caller(baseline))
    elif _kind_of(session, row) is not None:
        return
    row.hold_uuid = None


def _kind_of(session: Session, row: BaselineNode) -> str | None:
    """Return the kind of the hold that a comparison has set; None: there is none any more."""
    if row.hold_uuid is None:
        return None
    return session.scalar(select(Hold.kind).where(Hold.uuid == row.hold_uuid))


def _caller(baseline: Baseline) -> Caller:
    return Caller(user_name=f"baseline {baseline.name}"[:LONGEST_NAME])
