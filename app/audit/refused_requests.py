"""
Audit records of refused requests: collected for some seconds, then written in one transaction.

Unauthenticated clients can send any number of such requests. So equal ones are one record with
their number, a client gets few records in this time, and all unauthenticated clients together some
more. Further requests are counted in one record. None of them costs a transaction of its own, or
waits
for the database.
"""

import threading
from collections import Counter
from collections.abc import Callable, Sequence

from app.audit import audit_records
from app.audit.audit_records import Row
from app.models import Outcome
from app.observe import log

logger = log.get(__name__)

#: Seconds from the first refused request until the records are written.
WINDOW = 5.0
#: Limits of records in this time: per client, for all unauthenticated clients, for all clients.
PER_CLIENT, OF_STRANGERS, MOST = 10, 50, 500
#: Columns that equal requests have in common.
SAME = (
    "action", "outcome", "status", "target_type", "target", "user_id", "user_name", "address",
    "reason",
)  # fmt: skip
#: Action of the record that counts the requests without a record.
OMITTED = "omit/audit"


class RefusedRequests:
    """
    Collects records, and passes them to `write`, in a thread.

    The records of the last seconds are lost if the process dies, or if `write` fails, which is
    logged.
    """

    def __init__(self, write: Callable[[Sequence[Row]], None]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._records: dict[tuple[object, ...], Row] = {}
        self._of: Counter[str] = Counter()  # client -> its records
        self._strangers = 0  # records without a user
        self._omitted = 0
        self._timer: threading.Timer | None = None

    def add(self, record: Row, client: str) -> None:
        """Add a record. client: a user, or the network of an unauthenticated client."""
        key = tuple(record[name] for name in SAME)
        stranger = record["user_id"] is None
        with self._lock:
            if equal_record := self._records.get(key):
                equal_record["requests"] += 1
            elif self._is_full(client, stranger):
                self._omitted += 1
            else:
                self._records[key] = record
                self._of[client] += 1
                self._strangers += stranger
            if self._timer is None:
                self._timer = threading.Timer(WINDOW, self.flush)
                self._timer.daemon = True
                self._timer.start()

    def _is_full(self, client: str, stranger: bool) -> bool:
        return (
            self._of[client] >= PER_CLIENT
            or len(self._records) >= MOST
            or (stranger and self._strangers >= OF_STRANGERS)
        )

    def flush(self) -> None:
        """Write the collected records."""
        with self._lock:
            records, omitted = [*self._records.values()], self._omitted
            self._records, self._of = {}, Counter()
            self._strangers = self._omitted = 0
            if self._timer:
                self._timer.cancel()
                self._timer = None
        if omitted:
            outcome = Outcome.DENIED.value
            records.append(
                audit_records.row(action=OMITTED, auth="", outcome=outcome, requests=omitted)
            )
        if not records:
            return
        try:
            self._write(records)
        except Exception as error:  # the thread has no caller
            count = sum(record["requests"] for record in records)
            logger.warning("audit.lost", requests=count, error=str(error))
