"""
Who may read the files of the service: its own user alone, as the passwords of BMCs are in them.

What machines fetch may be read by the group of a web or TFTP server, too: `[deploy]served_group`.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app import log
from app.config.settings import Settings
from workers.supervisor.location import StartError

logger = log.get(__name__)

#: What a data directory holds that is for the service alone, beside the database.
PRIVATE = ("redis", "redis.log", "agent_logs", "lock")
DATABASE = "ingot.db*"
#: What else the service keeps there; with other things in it, the directory is not ours alone.
OTHERS = ("httpboot", "tftpboot", "master_images", "redis.sock")


@dataclass(frozen=True, slots=True)
class Wide:
    """A path that others may use. mode: what it has; right: what it should have."""

    path: Path
    mode: int
    right: int

    def tighten(self) -> None:
        """Raises OSError."""
        self.path.chmod(self.right)


def keep_private() -> None:
    """Let no other user read what this process writes from now on."""
    os.umask(0o077)


def let_servers_read(settings: Settings) -> None:
    """
    Let the group of a web or TFTP server read what this process writes from now on.

    `prepare` has made the folders that give their group to what is written there.
    """
    if settings.deploy.served_group:
        os.umask(0o027)


def prepare(settings: Settings) -> None:
    """
    Tighten what an older release has left open, and share with the group what it may read.

    Settings are complete. Raises StartError.
    """
    folder = Path(settings.default.data_dir)
    try:
        for each in wide(settings):
            facts = {"path": str(each.path), "mode": f"{each.mode:o}", "right": f"{each.right:o}"}
            if _is_ours_alone(each.path, folder):
                each.tighten()
                logger.info("permissions.tightened", **facts)
            else:
                logger.warning("permissions.too_wide", **facts)
        if settings.deploy.served_group:
            _share(settings, folder)
    except OSError as error:
        raise StartError(f"{error.filename or folder}: {error.strerror}") from None


def wide(settings: Settings) -> Iterator[Wide]:
    """The data directory and what is private in it, where others may read it or go through."""
    folder = Path(settings.default.data_dir)
    most = 0o710 if settings.deploy.served_group else 0o700
    paths = [folder, *(folder / name for name in PRIVATE), *sorted(folder.glob(DATABASE))]
    for path in paths:
        try:
            mode = stat.S_IMODE(path.lstat().st_mode)
        except FileNotFoundError:
            continue
        right = mode & (most if path == folder else 0o700)
        if mode & 0o777 & ~right:
            yield Wide(path, mode, right)


def _is_ours_alone(path: Path, folder: Path) -> bool:
    """Whether nothing else becomes unreadable with it; dot files, as in a home, do not count."""
    if path.stat().st_uid != os.geteuid():
        return False
    known = {*PRIVATE, *OTHERS}
    return path != folder or all(
        each.name in known or each.match(DATABASE) or each.name.startswith(".")
        for each in folder.iterdir()
    )


def _share(settings: Settings, folder: Path) -> None:
    """Let the group read what machines fetch, and go through the data directory for that."""
    group = settings.deploy.served_group
    pxe = settings.pxe
    roots = [Path(each) for each in (settings.deploy.http_root, pxe.tftp_root)]
    kept = Path(pxe.instance_master_path)  # linked from the roots, with the group that it has here
    try:
        for each in (*roots, kept):
            each.mkdir(mode=0o750, parents=True, exist_ok=True)
            shutil.chown(each, group=group)
            each.chmod(0o2750)  # what is made in it has its group
        inside = any(each.is_relative_to(folder) for each in roots)
        if (
            inside and not folder.stat().st_mode & stat.S_IXOTH
        ):  # else it lets all through, warned of
            shutil.chown(folder, group=group)
            folder.chmod(0o710)
    except (LookupError, PermissionError) as error:
        raise StartError(f"[deploy]served_group: {group}: {error}") from None
