"""
Logs of the agent, stored on this conductor as `[agent]deploy_logs_collect` demands.

Logs are only a help for operators: an error while fetching them is recorded as the result of the
frame step, and never fails the operation.
"""

import base64
import binascii
from datetime import UTC, datetime
from pathlib import Path

from drivers.agent import client
from drivers.core.errors import HardwareError, LeaseLost
from drivers.core.steps import Done
from drivers.core.target import Target

#: Folder of the logs in a service without a data directory.
_DEFAULT_FOLDER = "/var/log/ingot/deploy"
#: Bytes of an answer with logs: they are an archive in base64.
_LONGEST_ANSWER = 32 << 20
_MEBIBYTE = 1 << 20
_SUFFIX = ".tar.gz"


def are_kept(target: Target, *, failed: bool) -> bool:
    """Return whether to keep the logs of an operation that has failed, or has not."""
    when = target.options["agent"]["deploy_logs_collect"]
    return bool(when == "always" or (failed and when == "on_failure"))


def keep(target: Target) -> Done:
    """Fetch and store the agent's logs; {"logs": path}, or {"no_logs": reason}."""
    if not target.agent.url:
        return Done({"no_logs": "no agent has sent a heartbeat"})
    try:
        command = client.run(
            target, "log.collect_system_logs", {}, wait=True, longest=_LONGEST_ANSWER
        )
        found = client.result(target, command).get("system_logs")
        archive = base64.b64decode(found or "", validate=True)
        return Done(
            {"logs": str(_write(target, archive))}
            if archive
            else {"no_logs": "the agent returned none"}
        )
    except LeaseLost:
        raise
    except (HardwareError, OSError, TypeError, binascii.Error) as error:
        return Done({"no_logs": str(error)})


def _prune(folder: Path, most: int) -> None:
    """Remove the oldest logs until the rest has at most `most` bytes."""
    kept = sorted((each.stat().st_mtime, each) for each in folder.glob(f"*{_SUFFIX}"))
    size = sum(each.stat().st_size for _, each in kept)
    for _, each in kept:
        if size <= most:
            return
        size -= each.stat().st_size
        each.unlink(missing_ok=True)


def _write(target: Target, archive: bytes) -> Path:
    """Write a new file with mode 0600: logs may contain secrets."""
    data = target.options["DEFAULT"]["data_dir"]
    folder = Path(
        target.options["agent"]["deploy_logs_local_path"]
        or (data and Path(data, "agent_logs"))
        or _DEFAULT_FOLDER
    )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = str(target.provision_state).replace(" ", "-")
    moment = datetime.now(UTC).strftime("%Y-%m-%d-%H-%M-%S-%f")
    parts = filter(None, (target.uuid, target.name, state, moment))
    path = folder / f"{'_'.join(parts)}{_SUFFIX}"
    _prune(folder, int(target.options["agent"]["deploy_logs_max_size"]) * _MEBIBYTE - len(archive))
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(archive)
    return path
