"""The operator's commands: which there are, and under which name."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from app.cli import completion
from app.cli.commands import Command, add
from app.cli.lazy import Entry, Group, Loader, application, at


def _bulk(module: str, name: str) -> Loader:
    """A command for many nodes."""
    return at(module, name, lambda found: found.bulk.OPTIONS)


def _of(kind: str, method: str) -> Loader:
    """A command for a kind of thing."""

    def load() -> Command:
        from app.cli import kinds  # imports requests and rich

        made: Command = getattr(getattr(kinds, kind), method)()
        return made

    return load


def _all_of(kind: str) -> Mapping[str, Entry]:
    """All commands for a kind that can be created and changed."""
    methods = {
        "list": "listing", "show": "showing", "create": "creating", "set": "setting",
        "unset": "unsetting", "delete": "deleting",
    }  # fmt: skip
    return {name: _of(kind, method) for name, method in methods.items()}


NODE: Mapping[str, Entry] = {
    "list": at("nodes", "list_nodes"),
    "show": at("nodes", "show"),
    "create": at("node_changes", "create", lambda nodes: nodes.FIELDS.creating),
    "set": at(
        "node_changes", "set_fields", lambda nodes: (*nodes.FIELDS.setting, *nodes.bulk.OPTIONS)
    ),
    "unset": at(
        "node_changes", "unset_fields", lambda nodes: (*nodes.FIELDS.unsetting, *nodes.bulk.OPTIONS)
    ),
    "delete": _bulk("node_changes", "delete"),
    "maintenance": _bulk("node_changes", "maintenance"),
    "validate": at("parts", "validate"),
    "power": _bulk("work", "power"),
    "provision-state": _bulk("work", "provision_state"),
    "abort": _bulk("work", "abort"),
    "clean-steps": at("work", "clean_steps"),
    "deploy-steps": at("work", "deploy_steps"),
    "service-steps": at("work", "service_steps"),
    "why": at("inquiries", "why"),
    "operations": at("inquiries", "operations"),
    "operation": at("inquiries", "operation"),
    "history": at("inquiries", "history"),
    "trait": Group(
        "What a machine can do, for scheduling.",
        {
            "list": at("parts", "list_traits"),
            "add": at("parts", "add_traits"),
            "remove": at("parts", "remove_traits"),
            "set": at("parts", "set_traits"),
        },
    ),
    "vif": Group(
        "The networks of an instance.",
        {
            "list": at("parts", "list_vifs"),
            "attach": at("parts", "attach_vif"),
            "detach": at("parts", "detach_vif"),
        },
    ),
    "boot-device": Group(
        "What a machine boots from.",
        {"show": at("parts", "show_boot_device"), "set": at("parts", "set_boot_device")},
    ),
    "console": Group(
        "The console of a machine.",
        {
            "show": at("parts", "show_console"),
            "enable": at("parts", "enable_console"),
            "disable": at("parts", "disable_console"),
        },
    ),
}
GROUPS: Mapping[str, Group] = {
    "node": Group("Machines, and what is done to them.", NODE),
    "operation": Group(
        "What is done to machines.",
        {"list": at("inquiries", "list_operations"), "show": at("inquiries", "operation")},
    ),
    "port": Group("The network interfaces of machines.", _all_of("PORT")),
    "driver": Group(
        "The hardware types that can be used.",
        {
            "list": _of("DRIVER", "listing"),
            "show": _of("DRIVER", "showing"),
            "properties": at("parts", "driver_properties"),
        },
    ),
    "runbook": Group("Steps of cleaning and servicing, under a name.", _all_of("RUNBOOK")),
    "template": Group("Steps of deployments that ask for a trait.", _all_of("TEMPLATE")),
    "allocation": Group("Requests for nodes.", _all_of("ALLOCATION")),
}
#: In a group that the service's commands have, too.
CONDUCTOR: Mapping[str, Loader] = {"list": at("inquiries", "list_conductors")}
#: Outside of any group.
ALONE: Mapping[str, Loader] = {"version": at("inquiries", "version")}
#: All of them, without the commands that run the service.
OPERATORS = Group(
    "Bare-metal provisioning that loses nothing.",
    {**GROUPS, **ALONE, "conductor": Group("The workers that nodes belong to.", CONDUCTOR)},
)


def _tell_release(asked: bool) -> None:
    if asked:
        from importlib.metadata import version  # slow to import

        typer.echo(f"ingot {version('ingot')}")
        raise typer.Exit


def options(
    _version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_tell_release, help="Tell the release"),
    ] = False,
) -> None:
    """Bare-metal provisioning that loses nothing."""


def join(app: typer.Typer, conductor: typer.Typer) -> None:
    """Give an application the operator's commands; `conductor` is a group that it has."""
    for name, group in GROUPS.items():
        app.add_typer(application(group), name=name)
    for name, load in CONDUCTOR.items():
        add(conductor, name, load())
    for name, load in ALONE.items():
        add(app, name, load())
    app.command("completion")(completion.completion)
    app.callback()(options)
    completion.answer_shells()


def operators() -> typer.Typer:
    """An application of the operator's commands alone, which starts quickly."""
    app = application(OPERATORS)
    app.callback()(options)
    completion.answer_shells()
    return app


def knows(words: Sequence[str]) -> bool:
    """Whether that application has the command of a command line, as far as it goes."""
    first, second = (*words, "", "")[:2]
    if first == "conductor":
        return second in CONDUCTOR
    return first in OPERATORS.entries or first == "--version"
