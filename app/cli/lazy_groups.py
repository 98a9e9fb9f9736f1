"""
Groups that import their commands on use, so that no command waits for the imports of the others.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Union

import typer
from typer.core import TyperGroup

from app.cli.commands import Command, add

Loader = Callable[[], Command]
#: A `typer.Typer` has one command, which does not use the API.
Entry = Union[Loader, "Group", typer.Typer]


@dataclass(frozen=True, slots=True)
class Group:
    """Commands and groups, by name."""

    help_text: str  # help text
    entries: Mapping[str, Entry]


def at(module: str, name: str, options: Callable[[Any], Any] = lambda _module: ()) -> Loader:
    """Load a function of a module in this package. options: gets its options from the module."""

    def load() -> Command:
        package_module = import_module(f"app.cli.{module}")
        return Command(getattr(package_module, name), options(package_module))

    return load


class _Commands(Mapping[str, Any]):
    """Commands by name, each created at its first use."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries, self._commands = entries, dict[str, Any]()

    def __getitem__(self, name: str) -> Any:
        if name not in self._commands:
            self._commands[name] = _command(name, self._entries[name])
        return self._commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class _Lazy(TyperGroup):
    """A group that loads its commands on use."""

    entries: Mapping[str, Entry] = {}  # set by a subclass

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands(self.entries)  # type: ignore[assignment]  # nothing is added

    def list_commands(self, ctx: object) -> list[str]:
        return list(self.commands)


def application(group: Group) -> typer.Typer:
    """Create a typer application for a group, to run or for `add_typer`."""
    lazy = type("Lazy", (_Lazy,), {"entries": group.entries})
    typer_app = typer.Typer(
        help=group.help_text, cls=lazy, no_args_is_help=True, add_completion=False,
        pretty_exceptions_enable=False,
    )  # fmt: skip
    typer_app.callback()(_nothing)
    return typer_app


def _nothing() -> None:
    """A group without options."""


def _command(name: str, entry: Entry) -> object:
    if isinstance(entry, Group):
        command = typer.main.get_command(application(entry))
        command.name = name
        return command
    if isinstance(entry, typer.Typer):
        return typer.main.get_command(entry)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    add(alone, name, entry())
    return typer.main.get_command(alone)
