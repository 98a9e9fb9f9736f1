"""The settings of a command, and the options that select them."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from app.config import settings as app_settings
from app.config.settings import Settings
from app.observe import log
from workers.supervisor import permissions
from workers.supervisor.location import StartError

Config = Annotated[Path | None, typer.Option(help="TOML file with settings; default: INGOT_CONFIG")]
DataDir = Annotated[Path | None, typer.Option(help="Data directory of `ingot up`")]
DatabaseUrl = Annotated[str | None, typer.Option(help="URL: sqlite:///FILE or postgresql://...")]

#: Role -> name of its file in [DEFAULT]log_dir. Conductors of one host share theirs.
LOG_FILES = {
    "up": "ingot", "api": "ingot-api", "beat": "ingot-beat", "conductor": "ingot-conductor",
    "files": "ingot-files",
}  # fmt: skip


def read(config: Path | None, role: str | None = None, **flags: Any) -> Settings:
    """
    Load the settings and set up logging; `flags` (group__name) override them.

    Also sets the umask: files that are created later are private to this user. role: that this
    process runs, which logs to its file, if any.

    Raises SettingsError.
    Raises StartError: the file of the log cannot be written.
    """
    permissions.keep_private()
    settings = app_settings.load(
        os.environ, config, {name.replace("__", "."): value for name, value in flags.items()}
    )
    log.set_up(settings.default.log_level, settings.default.log_format)
    if role is not None:
        log_to_file(settings, role)
    log.name_process("up")
    for warning in settings.warnings:
        log.get(__name__).warning("settings.doubtful", detail=warning)
    return settings


def log_to_file(settings: Settings, role: str) -> None:
    """
    Log to the file of a role, if the settings name one or a folder for it.

    Raises StartError: the file cannot be written.
    """
    default = settings.default
    if not default.log_file and not default.log_dir:
        return
    path = Path(default.log_dir, default.log_file or f"{LOG_FILES[role]}.log")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        log.write_to(path, default.log_format, on_error_output=default.use_stderr)
    except OSError as error:
        option = "log_file" if default.log_file else "log_dir"
        raise StartError(f"[DEFAULT]{option}: {path}: {error.strerror}") from None
