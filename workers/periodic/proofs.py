"""
Checkpoints of the audit: one is opened, and closed by the next run.
"""

from app.audit import audit_proofs
from app.observe import log
from app.runtime import Runtime

logger = log.get(__name__)


def prove(runtime: Runtime) -> int:
    """Open or close a checkpoint; return how many were closed."""
    with runtime.write_connection() as connection:
        head = audit_proofs.advance(connection)
    if head is None:
        return 0
    # the log is kept elsewhere, so that a removal of the newest checkpoints is seen
    logger.info("audit.proven", head=head)
    return 1
