"""
Kill points: named places in the code where tests kill, stop or pause the process.

`[DEFAULT]kill_points` holds `[process:]point[:kind]=action` entries: `process` is a conductor's
name, `api` or `beat`; `kind` the kind of the operation; `any` matches all. Actions: `die` (SIGKILL
to itself), `stop` (SIGSTOP to itself), `pause-<seconds>`. `die-/a/file` and `stop-/a/file` happen
once in all processes: in the one that creates the file. Its directory must exist.

The points, in the order of a step's execution:

    handed_out   the row is dispatched, the transaction not yet committed
    committed    the transaction is committed, the message not yet sent
    sent         the message is sent
    received     the conductor has received the message
    leased       the conductor holds the node's lease, the step is not yet claimed
    claimed      the step is claimed, no command was sent
    acted        commands were sent to the machine, the outcome is not yet recorded
    freed        the lease is released, the outcome not yet recorded; not after every step
    recorded     the outcome of the step is recorded
    followed     the next link of the chain is sent
    waking       the wait monitor has found that a wait is over
    called       the API has recorded a heartbeat, and has not yet resumed the operation
    reconciling  the reconciler starts a run
    decided      the reconciler has chosen its actions, and has taken none
    admitting    an operation has entered an admission queue, or has ended and freed its slot
    admitted     an operation is admitted, its message not yet sent
    beating      beat is about to send the tasks that are due
    posted       the receiver of a webhook, or RabbitMQ or Nova, has answered, the outcome is not
                 yet recorded; kind: webhook, notification, power_update
    importing    rows of Ironic are written, not yet committed; kind: of the resource, as node
    exporting    rows are written to Ironic's database, not yet committed; kind: of the resource
    subscribed   a BMC has accepted a subscription to its events, which is not yet recorded
    vault_noted      the rows of new secrets are committed, the secrets not yet in the vault
    vault_stored     new secrets are in the vault, no node refers to them yet
    vault_destroyed  a secret is destroyed in the vault, its row not yet deleted
    sealed       older rows of a table (the kind) are encrypted, the transaction not yet committed
"""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress

POINTS = (
    "handed_out", "committed", "sent", "received", "leased", "claimed", "acted", "freed",
    "recorded", "followed", "waking", "called", "reconciling", "decided", "admitting", "admitted",
    "beating", "posted", "importing", "exporting", "subscribed", "sealed",
    "vault_noted", "vault_stored", "vault_destroyed",
)  # fmt: skip
#: (point, kind, action)
_armed: list[tuple[str, str, str]] = []


def arm(entries: Iterable[str], process: str) -> None:
    """
    Keep the entries for this process.

    Raises ValueError: an entry names an unknown point.
    """
    _armed.clear()
    for entry in entries:
        name, _, action = entry.partition("=")
        parts = name.split(":")
        if len(parts) == 1:
            parts = ["any", *parts]
        owner, point, kind = (*parts, "any")[:3]
        if point not in POINTS:
            raise ValueError(f"kill point {point!r}: there are {', '.join(POINTS)}")
        if owner in ("any", process):
            _armed.append((point, kind, action))


def reach(point: str, kind: str = "any") -> None:
    """Run the actions that are armed for this point; in production there are none."""
    for armed, armed_kind, order in _armed:
        if armed != point or armed_kind not in ("any", kind):
            continue
        action, _, argument = order.partition("-")
        if action == "pause":
            time.sleep(float(argument))
        elif argument and not _is_first(argument):
            continue
        elif action == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif action == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(0.1)  # the signal may stop another thread first, and this one a moment later


def _is_first(path: str) -> bool:
    """Create the file; False where it exists, or its directory does not."""
    with suppress(FileExistsError, FileNotFoundError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        return True
    return False
