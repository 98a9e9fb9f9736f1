"""
The agent's logs: this conductor keeps them as `[agent]deploy_logs_collect` says.

They are of help only, so whatever hinders it is told as the result of the row, and fails nothing.
"""

import base64
import binascii
from datetime import UTC, datetime
from pathlib import Path

from drivers.agent import client
from drivers.core.errors import HardwareError, LeaseLost
from drivers.core.steps import Done
from drivers.core.target import Target

#: Where they lie in a service that has no data directory.
_PLACE = "/var/log/ingot/deploy"


def wanted(target: Target, *, failed: bool) -> bool:
    """Whether they are to be kept of work that has failed, or has not."""
    when = target.options["agent"]["deploy_logs_collect"]
    return bool(when == "always" or (failed and when == "on_failure"))


def keep(target: Target) -> Done:
    """Fetch them from the agent, if one has called; {"logs": path}, or {"no_logs": why}."""
    if not target.agent.url:
        return Done({"no_logs": "no agent has called"})
    try:
        command = client.run(target, "log.collect_system_logs", {}, wait=True)
        found = client.result(target, command).get("system_logs")
        archive = base64.b64decode(found or "", validate=True)
        return Done({"logs": str(_write(target, archive))} if archive else {"no_logs": "none told"})
    except LeaseLost:
        raise
    except (HardwareError, OSError, TypeError, binascii.Error) as error:
        return Done({"no_logs": str(error)})


def _write(target: Target, archive: bytes) -> Path:
    """A new file, which nobody else may read: there may be secrets in it."""
    data = target.options["DEFAULT"]["data_dir"]
    folder = Path(
        target.options["agent"]["deploy_logs_local_path"]
        or (data and Path(data, "agent_logs"))
        or _PLACE
    )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = str(target.provision_state).replace(" ", "-")
    moment = datetime.now(UTC).strftime("%Y-%m-%d-%H-%M-%S-%f")
    parts = filter(None, (target.uuid, target.name, state, moment))
    path = folder / f"{'_'.join(parts)}.tar.gz"
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(archive)
    return path
