"""docs/settings.md: every option, and those of earlier releases."""

from itertools import groupby

from app.config import options
from app.config.removed_options import REMOVED
from app.config.settings import Settings
from docs.markdown import Lines, code, table
from workers.commands.settings_commands import toml


def settings() -> Lines:
    yield "# Settings\n"
    yield "From a flag, the environment, a TOML file (`--config`, `INGOT_CONFIG`), or the default,"
    yield "in this order. Option `name` of group `group` is `INGOT_GROUP_NAME` in the environment"
    yield "(`INGOT_NAME` in group `DEFAULT`) and `name = value` under `[group]` in the file. In the"
    yield "environment lists are separated by commas, maps are `name:value` pairs. `ingot config`"
    yield "prints the current values and their sources. A secret can also be read from a file:"
    yield "`INGOT_GROUP_NAME_FILE` is its path.\n"
    for group, members in groupby(options.options(Settings), lambda option: option.group):
        yield f"## [{group}]\n"
        yield from table(
            ("option", "default", "meaning"),
            ((code(option.name), code(_default(option)), _meaning(option)) for option in members),
        )
    yield "## Options of earlier releases\n"
    yield "A value of one of these is ignored, with a warning in the log.\n"
    yield from table(
        ("option", "rule now"),
        ((code(f"[{name.replace('.', ']', 1)}"), instead) for name, instead in REMOVED.items()),
    )


def _default(option: options.Option) -> str:
    return "unset" if option.default is None else toml(option.default)


def _meaning(option: options.Option) -> str:
    about = option.about
    parts = [f"{about.help}.", *(["Secret."] if about.secret else [])]
    if about.choices:
        parts.append(f"One of {code(*about.choices)}.")
    if about.minimum:
        parts.append(f"At least {about.minimum:g}.")
    if about.maximum:
        parts.append(f"At most {about.maximum:g}.")
    if about.deprecated:
        old = (f"[{name.replace('.', ']', 1)}" for name in about.deprecated)
        parts.append(f"Formerly {code(*old)}.")
    return " ".join(parts)
