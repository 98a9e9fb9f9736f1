"""The settings of a command, and the options that select them."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from app.config import settings as app_settings
from app.config.settings import Settings
from app.observe import log
from workers.supervisor import permissions

Config = Annotated[Path | None, typer.Option(help="TOML file with settings; default: INGOT_CONFIG")]
DataDir = Annotated[Path | None, typer.Option(help="Data directory of `ingot up`")]
DatabaseUrl = Annotated[str | None, typer.Option(help="URL: sqlite:///FILE or postgresql://...")]


def read(config: Path | None, **flags: Any) -> Settings:
    """
    Load the settings and set up logging; `flags` (group__name) override them.

    Also sets the umask: files that are created later are private to this user.
    Raises SettingsError.
    """
    permissions.keep_private()
    settings = app_settings.load(
        os.environ, config, {name.replace("__", "."): value for name, value in flags.items()}
    )
    log.set_up(settings.default.log_level, settings.default.log_format)
    log.name_process("up")
    for warning in settings.warnings:
        log.get(__name__).warning("settings.doubtful", detail=warning)
    return settings
