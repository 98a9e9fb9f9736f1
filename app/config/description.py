"""
Description of the settings, with secrets masked: the rows of `ingot config`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from app.config import options
from app.config.settings import Settings
from app.text.masking import HIDDEN, mask_urls


@dataclass(frozen=True, slots=True)
class Described:
    """A setting with its value; secrets are masked."""

    group: str
    name: str
    variable: str
    value: Any
    default: Any
    help: str
    choices: tuple[str, ...]
    origin: str


def describe(settings: Settings) -> Iterator[Described]:
    """Yield all settings with their values, in the order of declaration."""
    values = settings.options()
    for each in options.options(Settings):
        value = values[each.group][each.name]
        yield Described(
            group=each.group,
            name=each.name,
            variable=each.variable,
            value=masked(value) if each.about.secret else value,
            default=each.default,
            help=each.about.help,
            choices=each.about.choices,
            origin=settings.origins.get(f"{each.group}.{each.name}", "default"),
        )


def masked(value: str | None) -> str | None:
    """Mask a secret; of a URL, the credentials only. An unclear URL is masked whole."""
    if not value:
        return value
    shown = mask_urls(value)
    unclear = shown.count("@") > 1 or "@" in shown.replace(f"{HIDDEN}@", "")
    return HIDDEN if "://" not in value or unclear else shown
