"""
Logs of the agent, stored on this conductor as `[agent]deploy_logs_collect` demands.

Logs are only a help for operators: an error while fetching them is recorded as the result of the
frame step, and never fails the operation.
"""

import base64
import binascii
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from drivers.agent import client
from drivers.core.errors import HardwareError, LeaseLost, NotFound
from drivers.core.steps import Done
from drivers.core.target import Options, Target

#: Folder of the logs in a service without a data directory.
_DEFAULT_FOLDER = "/var/log/ingot/deploy"
#: Bytes of an answer with logs: they are an archive in base64.
_LONGEST_ANSWER = 32 << 20
_MEBIBYTE = 1 << 20
#: Bytes of a part that `read` returns: it passes through Redis.
PART = 256 << 10
_SUFFIX = ".tar.gz"


def are_kept(target: Target, *, failed: bool) -> bool:
    """Return whether to keep the logs of an operation that has failed, or has not."""
    policy = target.options["agent"]["deploy_logs_collect"]
    return bool(policy == "always" or (failed and policy == "on_failure"))


def keep(target: Target) -> Done:
    """Fetch and store the agent's logs; {"logs": path}, or {"no_logs": reason}."""
    if not target.agent.url:
        return Done({"no_logs": "no agent has sent a heartbeat"})
    try:
        command = client.run(
            target, "log.collect_system_logs", {}, wait=True, max_bytes=_LONGEST_ANSWER
        )
        encoded_logs = client.result(target, command).get("system_logs")
        archive = base64.b64decode(encoded_logs or "", validate=True)
        return Done(
            {"logs": str(_write(target, archive))}
            if archive
            else {"no_logs": "the agent returned none"}
        )
    except LeaseLost:
        raise
    except (HardwareError, OSError, TypeError, binascii.Error) as error:
        return Done({"no_logs": str(error)})


def read(options: Options, node: str, name: str, offset: int) -> dict[str, Any]:
    """
    Read a part of a kept log of a node, given by its UUID.

    Returns {"size": bytes of the whole, "content": the part in base64}.
    Raises NotFound: there is no such file, or it is not one of this node.
    """
    path = _folder(options) / name
    try:
        if Path(name).name != name or not name.startswith(f"{node}_"):
            raise FileNotFoundError
        with open(path, "rb", opener=_without_links) as file:
            file.seek(offset)
            part = file.read(PART)
            return {
                "size": os.fstat(file.fileno()).st_size,
                "content": base64.b64encode(part).decode(),
            }
    except (OSError, ValueError):
        raise NotFound(
            f"The log {name} is not kept any more: the oldest ones are removed above"
            " [agent]deploy_logs_max_size"
        ) from None


def _without_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW)


def _folder(options: Options) -> Path:
    """Return the directory of the logs."""
    data = options["DEFAULT"]["data_dir"]
    path_setting = options["agent"]["deploy_logs_local_path"]
    return Path(path_setting or (data and Path(data, "agent_logs")) or _DEFAULT_FOLDER)


def _prune(folder: Path, max_bytes: int) -> None:
    """Remove the oldest logs until the rest has at most `most` bytes."""
    log_files = sorted((path.stat().st_mtime, path) for path in folder.glob(f"*{_SUFFIX}"))
    size = sum(path.stat().st_size for _, path in log_files)
    for _, path in log_files:
        if size <= max_bytes:
            return
        size -= path.stat().st_size
        path.unlink(missing_ok=True)


def _write(target: Target, archive: bytes) -> Path:
    """Write a new file with mode 0600: logs may contain secrets."""
    folder = _folder(target.options)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = str(target.provision_state).replace(" ", "-")
    timestamp = datetime.now(UTC).strftime("%Y-%m-%d-%H-%M-%S-%f")
    parts = filter(None, (target.uuid, target.name, state, timestamp))
    path = folder / f"{'_'.join(parts)}{_SUFFIX}"
    _prune(folder, int(target.options["agent"]["deploy_logs_max_size"]) * _MEBIBYTE - len(archive))
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(archive)
    return path
