"""Following of a rollout: its waves as they begin, until it ends or is paused."""

import time

from app.cli.rest import Api
from app.cli.terminal.errors import Failure, NotYet
from app.cli.terminal.output import Document, Output

#: Seconds between two reads of a rollout.
PERIOD = 1.0
ENDED = ("completed", "aborted")


def follow(api: Api, output: Output, uuid: str, timeout: float) -> None:
    """
    Print the summary of a rollout when a wave begins, and at its end or pause.

    timeout: most seconds to follow it.

    Raises NotYet: it is paused, or not over within the timeout. Raises Failure: nodes have failed,
    or it was aborted.
    """
    api, end, wave = api.another(patient=True), time.monotonic() + timeout, None
    while True:
        rollout = api.get("rollouts", uuid)
        is_over = rollout["state"] in ENDED
        if output.people and rollout["state"] == "running" and wave != rollout["wave"]:
            wave = rollout["wave"]
            output.say(f"{rollout['succeeded']} of {rollout['nodes']} done. {rollout['summary']}")
        seconds_left = end - time.monotonic()
        if is_over or rollout["state"] == "paused" or seconds_left <= 0:
            break
        time.sleep(min(PERIOD, seconds_left))
    output.result(rollout, f"{uuid}: {rollout['summary']}")
    _conclude(rollout)


def _conclude(rollout: Document) -> None:
    uuid, state = rollout["uuid"], rollout["state"]
    if state == "paused":
        raise NotYet(
            f"{uuid} is paused; `ingot fleet nodes {uuid} --state failed` has the failures"
        )
    if state not in ENDED:
        raise NotYet(f"{uuid} is not over yet; it goes on")
    if state == "aborted" or rollout["failed"]:
        raise Failure(f"{uuid} is {state}; {rollout['failed']} of its nodes have failed")
