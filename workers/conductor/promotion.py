"""
Promotion of a standby of PostgreSQL: find the work that was lost with the last writes.

A standby that replicates asynchronously lacks the last writes of its primary. A loss of less than
the time between two heartbeats shows in no watermark (`workers.restoration.restore`), but an
operation may then be recorded as running, or as waited for, by a conductor that has long gone on
with it. Every promotion starts a new timeline, so each conductor compares its claims with its work
when it sees another timeline than before.
"""

from dataclasses import dataclass

from sqlalchemy import select, text
from sqlalchemy.exc import SQLAlchemyError

from app.db.diagnosis import is_unavailable, reason
from app.db.prepared import Prepared
from app.models import Operation, OperationState
from app.observe import log
from workers.conductor import claims, poller
from workers.conductor.conductor import Conductor

logger = log.get(__name__)
seldom = log.RateLimited(logger)

#: The first eight digits of a WAL file's name are its timeline. Every user may call both functions.
#: `pg_control_checkpoint()` would show a new timeline only after the next checkpoint.
_TIMELINE = Prepared(text("SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)"))


@dataclass(slots=True)
class Timeline:
    """The timeline of the database, as a conductor saw it last."""

    conductor: Conductor
    last_timeline: int | None = None  # unset before the first look

    def look(self) -> None:
        """
        Read the timeline; if it is another one, give up the work that was lost.

        Raises SQLAlchemyError: the database is away; the next look does it all.
        """
        timeline = self._read()
        if timeline is None:
            return
        if self.last_timeline not in (None, timeline):
            given_up, polls = give_up_lost(self.conductor)
            logger.warning(
                "database.promoted", timeline=timeline, before=self.last_timeline,
                given_up=given_up, asked_again=polls,
            )  # fmt: skip
        self.last_timeline = timeline

    def _read(self) -> int | None:
        """Return the timeline, or None if the database has none or does not report it."""
        runtime = self.conductor.runtime
        if runtime.engine.dialect.name != "postgresql":
            return None
        try:
            with runtime.read_connection() as connection:
                row = _TIMELINE.first(connection, {})
        except SQLAlchemyError as error:
            if is_unavailable(error):
                raise
            # the functions were taken from the user, or the server is a standby
            seldom.warning("database.no_timeline", detail=reason(error))
            return None
        return int(row[0], 16) if row else None


def give_up_lost(conductor: Conductor) -> tuple[int, int]:
    """
    Give up the claims without an attempt in progress, and ask the agents that are not polled.

    The step of such a claim is taken over at once, as one whose process has died: it may have been
    done, so it looks at the machine before it acts. An agent that is asked too early is waited for
    again.

    Returns the numbers of claims that were given up, and of waits that were resumed.
    """
    runtime = conductor.runtime
    columns = (Operation.id, Operation.fence, Operation.claim)
    is_ours = Operation.claimed_by == conductor.incarnation
    with runtime.reading() as session:
        running_operations = session.execute(
            select(*columns).where(is_ours, Operation.state == OperationState.RUNNING)
        ).all()
        polled = session.execute(
            select(*columns).where(
                is_ours, Operation.state == OperationState.WAITING,
                Operation.watched_until.is_not(None), Operation.wake_at.is_(None),
            )
        ).all()  # fmt: skip
    # after the rows: an attempt whose record came in between is not in progress any more, but then
    # its claim has no effect
    lost_claims = [
        (id_, fence, token)
        for id_, fence, token in running_operations
        if token is not None and token not in conductor.attempts
    ]
    given_up = claims.expire_lost(conductor, lost_claims)
    polls = sum(
        poller.resume_operation(runtime, id_, fence)
        for id_, fence, _ in polled
        if not conductor.wait_monitor.watches(id_, fence)
    )
    return given_up, polls
