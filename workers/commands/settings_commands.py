"""
Commands that show the settings, and compare an ironic.conf with them: `ingot config`.
"""

import difflib
import json
import os
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from app.config import description
from app.config.settings import SettingsError
from workers.commands.configuration import Config, read


class _ShowsByDefault(TyperGroup):
    """A group whose command `show` may be left out: `ingot config api`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] != "--help"):
            args = ["show", *args]
        return super().parse_args(ctx, args)


group = typer.Typer(
    help="Print every setting, or import an ironic.conf.", cls=_ShowsByDefault, add_completion=False
)


@group.command("show")
def show_config(
    section: Annotated[
        str, typer.Argument(help="Section to print, such as api; default: all")
    ] = "",
    *,
    only_changed: Annotated[
        bool, typer.Option("--changed", help="Only settings that are set somewhere")
    ] = False,
    config: Config = None,
) -> None:
    """Print every setting as a TOML file: value, default, meaning, origin."""
    settings = list(description.describe(read(config)))
    sections = list(dict.fromkeys(setting.group for setting in settings))
    if section and section not in sections:
        near_sections = difflib.get_close_matches(section, sections, 1)
        hint = (
            f"; the nearest is {near_sections[0]}"
            if near_sections
            else f"; there are {', '.join(sections)}"
        )
        raise SettingsError(f"{section}: there is no such section{hint}")
    group = None
    for setting in settings:
        if (section and setting.group != section) or (only_changed and setting.origin == "default"):
            continue
        if setting.group != group:
            group = setting.group
            typer.echo(f"\n[{group}]")
        choices = f" ({', '.join(setting.choices)})" if setting.choices else ""
        typer.echo(f"# {setting.help}{choices}")
        typer.echo(f"# {setting.variable}, default {toml(setting.default)}, from: {setting.origin}")
        unset = "# " if setting.value is None else ""
        typer.echo(f"{unset}{setting.name} = {'' if unset else toml(setting.value)}".rstrip())
    if group is None:
        typer.echo("# no setting is changed from its default")


@group.command("import")
def import_ironic_conf(
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="ironic.conf, or a folder of such files")
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="New TOML file; default: standard output"),
    ] = None,
) -> None:
    """
    Report the effect of each option of an ironic.conf, and write those that count as TOML.

    Exit status: 0; 1 if an option would stop the start.
    """
    from app.config import ironic_report  # here: the other commands do not need it
    from app.config.ironic_report import Verdict

    findings = ironic_report.examine(path)
    verdict = None
    for finding in findings:
        if finding.verdict is not verdict:
            verdict = finding.verdict
            typer.echo(f"\n{verdict}:", err=output is None)
        group_name, _, name = finding.place.partition(".")
        reason = f"  ({finding.reason})" if finding.reason else ""
        typer.echo(f"  [{group_name}]{name} = {finding.shown}{reason}", err=output is None)
    honoured = [finding for finding in findings if finding.verdict is Verdict.HONOURED]
    text = "".join(_toml_lines((finding.place, finding.value) for finding in honoured))
    if output is None:
        typer.echo(text)
    else:
        _write_new(output, text)
    if any(finding.verdict is Verdict.STOPS for finding in findings):
        raise typer.Exit(1)


def _toml_lines(values: Iterable[tuple[str, object]]) -> Iterator[str]:
    """Yield lines of TOML for pairs of "group.name" and value; a value that is None has none."""
    section = None
    for path, value in sorted((pair for pair in values if pair[1] is not None), key=itemgetter(0)):
        group_name, _, name = path.partition(".")
        if group_name != section:
            section = group_name
            yield f"\n[{section}]\n"
        yield f"{name} = {toml(value)}\n"


def _write_new(path: Path, text: str) -> None:
    """Write a file that only this user can read, as it may have secrets. Raises SettingsError."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None


def toml(value: object) -> str:
    """Format a value as TOML; None is "none"."""
    match value:
        case None:
            return "none"
        case bool() | int() | float():
            return str(value).lower()
        case dict():
            return f"{{{', '.join(f'{toml(key)} = {toml(item)}' for key, item in value.items())}}}"
        case tuple():
            return f"[{', '.join(toml(item) for item in value)}]"
        case _:
            return json.dumps(value)
