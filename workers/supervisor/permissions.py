"""
Permissions of the service's files: private to its user, as they contain the passwords of BMCs.

Files that machines fetch are also readable by the group of a web or TFTP server:
`[deploy]served_group`.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.config.settings import Settings
from app.observe import log
from workers.supervisor.location import StartError

logger = log.get(__name__)

#: Private entries of a data directory, without the database.
PRIVATE = (
    "redis",
    "redis.log",
    "agent_logs",
    "bmc_host_keys",
    "consoles",
    "metrics",
    "lock",
    "admin-password",
)
DATABASE = "ingot.db*"
#: Other entries of the service; a directory with any further entry is shared with other programs.
OTHERS = ("httpboot", "tftpboot", "master_images", "redis.sock")


@dataclass(frozen=True, slots=True)
class TooWide:
    """A private path that other users may use."""

    path: Path
    mode: int
    allowed_mode: int  # mode that it should have

    def restrict(self) -> None:
        """
        Set the wanted mode.

        Raises OSError.
        """
        self.path.chmod(self.allowed_mode)


def keep_private() -> None:
    """Set the umask so that files which this process creates are private to its user."""
    os.umask(0o077)


def let_servers_read(settings: Settings) -> None:
    """
    Set the umask so that the group of a web or TFTP server may read new files of this process.

    `prepare` has set that group on the folders, which pass it on to new files.
    """
    if settings.deploy.served_group:
        os.umask(0o027)


def prepare(settings: Settings) -> None:
    """
    Restrict private files that are readable by others, and share served files with the group.

    The settings must be complete (`location.complete`).
    Raises StartError.
    """
    folder = Path(settings.default.data_dir)
    try:
        for wide_path in too_wide(settings):
            modes = {"mode": f"{wide_path.mode:o}", "wanted": f"{wide_path.allowed_mode:o}"}
            facts = {"path": str(wide_path.path), **modes}
            if _is_unshared(wide_path.path, folder):
                wide_path.restrict()
                logger.info("permissions.tightened", **facts)
            else:
                logger.warning("permissions.too_wide", **facts)
        if settings.deploy.served_group:
            _share(settings, folder)
    except OSError as error:
        raise StartError(f"{error.filename or folder}: {error.strerror}") from None


def too_wide(settings: Settings) -> Iterator[TooWide]:
    """Yield data directory, private entries, database and key file that others may use."""
    folder = Path(settings.default.data_dir)
    folder_mode = 0o710 if settings.deploy.served_group else 0o700
    paths = [folder, *(folder / name for name in PRIVATE), *sorted(folder.glob(DATABASE))]
    key = settings.database.secrets_key_file
    # a file that is mounted alone is a secret of a container engine, whose host protects it
    keys = [Path(key)] if key and not os.path.ismount(key) else []
    other_paths = [*_files_of_sqlite(settings), *keys]
    for path in dict.fromkeys((*paths, *other_paths)):
        try:
            mode = stat.S_IMODE(path.lstat().st_mode)
        except FileNotFoundError:
            continue
        allowed_mode = mode & (folder_mode if path == folder else 0o700)
        if mode & 0o777 & ~allowed_mode:
            yield TooWide(path, mode, allowed_mode)


def _files_of_sqlite(settings: Settings) -> list[Path]:
    """Return the files of a SQLite database, which may lie outside of the data directory."""
    scheme, _, name = settings.database.connection.partition(":///")
    if scheme != "sqlite" or not name:
        return []
    path = Path(name)
    return [path, *sorted(path.parent.glob(f"{path.name}-*"))]


def _is_unshared(path: Path, folder: Path) -> bool:
    """
    Whether a path can be restricted: it belongs to this user, and has no entries of other programs.

    Dot files do not count, as a home directory may be the data directory.
    """
    if path.stat().st_uid != os.geteuid():
        return False
    entry_names = {*PRIVATE, *OTHERS}
    return path != folder or all(
        entry.name in entry_names or entry.match(DATABASE) or entry.name.startswith(".")
        for entry in folder.iterdir()
    )


def _share(settings: Settings, folder: Path) -> None:
    """Let the group read the served files, and traverse the data directory to reach them."""
    group = settings.deploy.served_group
    pxe = settings.pxe
    roots = [Path(root) for root in (settings.deploy.http_root, pxe.tftp_root)]
    masters = Path(pxe.instance_master_path)  # hard-linked from the roots, so it needs the group
    try:
        for served_folder in (*roots, masters):
            served_folder.mkdir(mode=0o750, parents=True, exist_ok=True)
            shutil.chown(served_folder, group=group)
            served_folder.chmod(0o2750)  # setgid: new entries have the group
        is_inside = any(root.is_relative_to(folder) for root in roots)
        # a directory that all users may traverse stays as it is; a warning is logged
        if is_inside and not folder.stat().st_mode & stat.S_IXOTH:
            shutil.chown(folder, group=group)
            folder.chmod(0o710)
    except (LookupError, PermissionError) as error:
        raise StartError(f"[deploy]served_group: {group}: {error}") from None
