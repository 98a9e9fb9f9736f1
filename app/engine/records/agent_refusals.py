"""
Refused requests of agents: counted, logged, and recorded in the history of the node that waits.

An operator sees a refused agent nowhere else: to the service it looks like a machine that does not
boot. The requests need no credentials, so a flood of them has to cost little: a process looks few
times a minute whether a refusal is recorded, and a node gets one history entry for each cause and
sender in an hour, or in its operation. Few senders get entries, and in any case the agent to which
the service has given the token, so that strangers do not hide it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.db.clock import age
from app.db.diagnosis import reason
from app.inventory import history
from app.lifecycle.flows import HEARTBEAT_STATES
from app.metrics.table import AGENT_REFUSALS
from app.models import AgentRecord, Node, NodeHistory, Operation
from app.observe import log
from app.requests.rate_limit import RateLimit
from app.rows.uuid_or_name import key_of
from app.runtime import Runtime
from app.text.sentences import harmless

seldom = log.RateLimited(log.get(__name__))

HEARTBEAT, LOOKUP, REPORT = "heartbeat", "lookup", "report"
#: Request -> its words in a sentence.
_NAMES = {HEARTBEAT: "a heartbeat", LOOKUP: "a lookup", REPORT: "an inspection report"}
#: Request -> event of the log.
_LOGGED = {
    HEARTBEAT: "heartbeat.refused", LOOKUP: "lookup.refused", REPORT: "inspection.report_refused",
}  # fmt: skip
#: Cause of a refusal -> its remedy.
REMEDIES: Mapping[str, str] = {
    "token": "boot the machine again: its agent has another token than the one of its lookup, since"
    " it was started twice, or another machine sends in its name",
    "repeated": "boot the machine again; a proxy in front of agents must set X-Forwarded-For and be"
    " in [api]trusted_proxies, so that an agent that has lost an answer gets its token again",
    "version": "boot an ironic-python-agent that sends its version",
    "tls": "build a ramdisk whose agent serves TLS, or set [agent]require_tls to false",
    "address": "boot the machine again if its address has changed; [agent]allowed_networks and"
    " denied_networks have the addresses that may be used",
    "certificate": "boot the machine again: its agent has made another certificate",
    "node": "add the machine's MAC addresses as ports of its node",
    "state": "request the verb again, or stop the machine",
    "malformed": "boot an ironic-python-agent that is as new as this service expects",
}
EVENTS = tuple(f"{request}_refused_{cause}" for request in _NAMES for cause in REMEDIES)
#: Refusals of one kind that a process records in a minute, for each node and sender.
_RECORDS = RateLimit(6)
#: Seconds without another history entry of one kind and sender for a node, unless a new operation
#: begins.
_PAUSE = 3600.0
#: Senders, besides the node's agent, whose refusals of one kind get entries of their own.
MOST_SENDERS = 3
#: Most characters of a refusal's words, and of the address of its sender.
_LONGEST, _LONGEST_ADDRESS = 300, 64
#: Most refusals in the explanation of a wait, and entries that they are chosen of.
MOST, _CHOSEN_OF = 3, 100


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused request."""

    request: str  # HEARTBEAT, LOOKUP or REPORT
    cause: str  # key of REMEDIES
    words: str  # the error, for operators
    address: str  # of the sender, as the service sees it, or a trusted proxy tells it
    node: str | None  # UUID or name of the node, if known


def note(runtime: Runtime, refusal: Refusal) -> None:
    """Count and log a refused request, and record it for the node that waits for its agent."""
    AGENT_REFUSALS.add(refusal.request, refusal.cause)
    words, remedy = harmless(refusal.words)[:_LONGEST].rstrip("."), REMEDIES[refusal.cause]
    sender = harmless(refusal.address)[-_LONGEST_ADDRESS:] or "an unknown address"
    # the routes of the others log what they looked for and did not find
    if refusal.request == HEARTBEAT or refusal.cause in ("malformed", "repeated"):
        facts = {"node": refusal.node, "address": sender, "why": words, "remedy": remedy}
        seldom.warning(_LOGGED[refusal.request], **facts)
    event_type = f"{refusal.request}_refused_{refusal.cause}"
    if refusal.node is None or _RECORDS.take(f"{refusal.node} {event_type} {sender}"):
        return
    request = _NAMES[refusal.request]
    text = f"{request} of its agent from {sender} was refused: {words}; {remedy}"
    try:
        with runtime.transaction() as session:
            _record(session, refusal.node, event_type, sender, text)
    except SQLAlchemyError as error:
        seldom.warning("refusal.not_recorded", node=refusal.node, detail=reason(error))


def since(session: Session, node: Node, moment: datetime) -> Sequence[str]:
    """
    Describe the refused requests of a node's agents since a moment.

    Those of the agent that has the token are first, then the latest one of each other sender.
    """
    entries = session.scalars(
        select(NodeHistory)
        .where(
            NodeHistory.node_id == node.id,
            NodeHistory.event_type.in_(EVENTS),
            NodeHistory.created_at >= moment,
        )
        .order_by(NodeHistory.id.desc())
        .limit(_CHOSEN_OF)
    )
    agent, ranks, order = _agent_address(session, node), Counter[str | None](), []
    for place, entry in enumerate(entries):
        order.append((entry.sender != agent, ranks[entry.sender], place, entry))
        ranks[entry.sender] += 1
    return [
        f"{entry.event} (at {entry.created_at:%Y-%m-%d %H:%M:%S} UTC)"
        for *_, entry in sorted(order, key=lambda item: item[:3])[:MOST]
    ]


def _record(session: Session, ident: str, event_type: str, sender: str, text: str) -> None:
    """
    Record a refusal in the history of a node that waits for its agent.

    The first refusal of a further sender, after `MOST_SENDERS`, gets the last entry.
    """
    column, value = key_of(ident)
    node = session.scalar(select(Node).where(getattr(Node, column) == value))
    if node is None or node.provision_state not in HEARTBEAT_STATES:
        return
    newest = select(func.max(Operation.created_at)).where(Operation.node_id == node.id)
    query = select(NodeHistory.sender).where(
        NodeHistory.node_id == node.id,
        NodeHistory.event_type == event_type,
        age(NodeHistory.created_at) < _PAUSE,
        NodeHistory.created_at >= func.coalesce(newest.scalar_subquery(), NodeHistory.created_at),
    )
    agent, senders = _agent_address(session, node), set(session.scalars(query))
    strangers = len(senders - {agent})
    if sender in senders or (sender != agent and strangers > MOST_SENDERS):
        return
    if sender != agent and strangers == MOST_SENDERS:
        text = (
            f"after those of other addresses, {text}; from now on only the metric agent_refusals"
            " counts other addresses"
        )
    history.add(session, node, event_type, text, "ERROR", sender=sender)


def _agent_address(session: Session, node: Node) -> str:
    """Address of the agent that has the node's token; "" if it is unknown."""
    query = select(AgentRecord.given_to).where(AgentRecord.node_id == node.id)
    return session.scalar(query) or ""
