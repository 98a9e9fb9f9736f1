"""Tree of the operator's commands."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from app.cli import completion
from app.cli.commands import Command, add
from app.cli.lazy_groups import Entry, Group, Loader, application, at


def _bulk(module: str, name: str) -> Loader:
    """Load a command for many nodes."""
    return at(module, name, lambda commands: commands.bulk.OPTIONS)


def _of(kind: str, method: str) -> Loader:
    """Load a command for a resource."""

    def load() -> Command:
        from app.cli import resource_table  # imports requests and rich

        command: Command = getattr(getattr(resource_table, kind), method)()
        return command

    return load


def _all_of(kind: str) -> Mapping[str, Entry]:
    """Load all commands for a resource that can be created and changed."""
    methods = {
        "list": "listing", "show": "showing", "create": "creating", "set": "setting",
        "unset": "unsetting", "delete": "deleting",
    }  # fmt: skip
    return {name: _of(kind, method) for name, method in methods.items()}


NODE: Mapping[str, Entry] = {
    "list": at("node_commands.nodes", "list_nodes"),
    "show": at("node_commands.nodes", "show"),
    "create": at("node_commands.node_changes", "create", lambda nodes: nodes.FIELDS.creating),
    "set": at(
        "node_commands.node_changes",
        "set_fields",
        lambda nodes: (*nodes.FIELDS.setting, *nodes.bulk.OPTIONS),
    ),
    "unset": at(
        "node_commands.node_changes",
        "unset_fields",
        lambda nodes: (*nodes.FIELDS.unsetting, *nodes.bulk.OPTIONS),
    ),
    "delete": _bulk("node_commands.node_changes", "delete"),
    "import": at("fleet_file.file_commands", "import_nodes", lambda files: files.READING),
    "export": at("fleet_file.file_commands", "export"),
    "maintenance": _bulk("node_commands.node_changes", "maintenance"),
    "validate": at("node_commands.node_parts", "validate"),
    "power": _bulk("node_commands.verbs", "power"),
    "provision-state": _bulk("node_commands.verbs", "provision_state"),
    "abort": _bulk("node_commands.verbs", "abort"),
    "clean-steps": at("node_commands.verbs", "clean_steps"),
    "deploy-steps": at("node_commands.verbs", "deploy_steps"),
    "service-steps": at("node_commands.verbs", "service_steps"),
    "why": at("node_commands.inquiries", "why"),
    "watch": at("node_commands.watch", "watch"),
    "operations": at("node_commands.inquiries", "operations"),
    "operation": at("node_commands.inquiries", "operation"),
    "history": at("node_commands.inquiries", "history"),
    "agent-logs": at("node_commands.agent_logs", "agent_logs"),
    "sensors": at("node_commands.sensors", "sensors"),
    "refresh": _bulk("node_commands.refresh", "refresh"),
    "event-subscription": at("node_commands.inquiries", "event_subscription"),
    "benchmarks": at("node_commands.benchmarks", "benchmarks"),
    "compliance": at("baselines", "compliance"),
    "trait": Group(
        "Traits of a node, for scheduling.",
        {
            "list": at("node_commands.node_parts", "list_traits"),
            "add": at("node_commands.node_parts", "add_traits"),
            "remove": at("node_commands.node_parts", "remove_traits"),
            "set": at("node_commands.node_parts", "set_traits"),
        },
    ),
    "vif": Group(
        "Virtual network interfaces (VIFs) of a node.",
        {
            "list": at("node_commands.node_parts", "list_vifs"),
            "attach": at("node_commands.node_parts", "attach_vif"),
            "detach": at("node_commands.node_parts", "detach_vif"),
        },
    ),
    "switch-port": Group(
        "Switch ports of a node, with network interface switch.",
        {
            "list": at("node_commands.node_parts", "list_switch_ports"),
            "restore": at("node_commands.node_parts", "restore_switch_ports"),
        },
    ),
    "boot-device": Group(
        "Boot device of a machine.",
        {
            "show": at("node_commands.node_parts", "show_boot_device"),
            "set": at("node_commands.node_parts", "set_boot_device"),
        },
    ),
    "console": Group(
        "Console of a machine.",
        {
            "show": at("node_commands.node_parts", "show_console"),
            "enable": at("node_commands.node_parts", "enable_console"),
            "disable": at("node_commands.node_parts", "disable_console"),
            "open": at("node_commands.console", "open_console"),
            "history": at("node_commands.console", "history"),
        },
    ),
}
GROUPS: Mapping[str, Group] = {
    "node": Group("Nodes: the managed machines.", NODE),
    "operation": Group(
        "Operations of nodes.",
        {
            "list": at("node_commands.inquiries", "list_operations"),
            "show": at("node_commands.inquiries", "operation"),
        },
    ),
    "fleet": Group(
        "Rollouts: a verb for many nodes, in waves.",
        {
            "run": at("fleet", "run", lambda fleet: fleet.rollouts.OPTIONS),
            "list": at("fleet", "list_rollouts"),
            "show": at("fleet", "show"),
            "nodes": at("fleet", "nodes"),
            "watch": at("fleet", "watch"),
            "pause": at("fleet", "pause"),
            "resume": at("fleet", "resume"),
            "abort": at("fleet", "abort"),
            "delete": at("fleet", "delete"),
        },
    ),
    "bmc": Group("Management controllers of machines.", {"record": at("recording", "record")}),
    "hold": Group(
        "Holds: reasons for which nodes are not used.",
        {
            "create": _bulk("holds", "create"),
            "list": at("holds", "list_holds"),
            "show": at("holds", "show"),
            "extend": at("holds", "extend"),
            "delete": at("holds", "delete"),
        },
    ),
    "audit": Group(
        "Audit records: the requests, their callers and their outcomes.",
        {
            "list": at("audit", "list_records", lambda audit: audit.FILTERS),
            "export": at("audit", "export", lambda audit: audit.FILTERS),
        },
    ),
    "sanitation": Group(
        "Signed reports of cleanings, with the erased disks.",
        {
            "list": at("sanitation", "list_reports"),
            "show": at("sanitation", "show"),
            "export": _bulk("sanitation", "export"),
        },
    ),
    "port": Group("Network interfaces of nodes.", _all_of("PORT")),
    "network": Group("Networks of network interface switch.", _all_of("NETWORK")),
    "switch": Group("Switches of network interface switch.", _all_of("SWITCH")),
    "baseline": Group(
        "Baselines: expected facts of machines, and who differs.",
        {
            **_all_of("BASELINE"),
            "nodes": at("baselines", "nodes"),
            "remedy": at("baselines", "remedy", lambda baselines: baselines.rollouts.OPTIONS),
        },
    ),
    "driver": Group(
        "Hardware types of the live conductors.",
        {
            "list": _of("DRIVER", "listing"),
            "show": _of("DRIVER", "showing"),
            "properties": at("node_commands.node_parts", "driver_properties"),
        },
    ),
    "runbook": Group("Named lists of clean or service steps.", _all_of("RUNBOOK")),
    "template": Group("Deploy steps for a required trait.", _all_of("TEMPLATE")),
    "webhook": Group(
        "Webhooks: receivers of change events.",
        {
            **_all_of("WEBHOOK"),
            "failures": at("webhooks", "list_failures"),
            "replay": at("webhooks", "replay"),
        },
    ),
    "quota": Group(
        "Quotas: how many nodes a project may lease.",
        {
            "list": at("quotas", "list_quotas"),
            "set": at("quotas", "set_quota"),
            "unset": at("quotas", "unset_quota"),
        },
    ),
    "allocation": Group("Allocations: requests for nodes.", _all_of("ALLOCATION")),
}
#: Commands of a group to which the service's commands belong, too.
CONDUCTOR: Mapping[str, Loader] = {
    "list": at("conductors", "list_conductors"),
    "drain": at("conductors", "drain"),
    "undrain": at("conductors", "undrain"),
}
#: Group -> its commands that do not use the API: they work on the database, or on files.
WITHOUT_API: Mapping[str, Sequence[str]] = {"audit": ("verify",), "sanitation": ("verify", "key")}
#: Commands outside of any group.
ALONE: Mapping[str, Loader] = {
    "apply": at("fleet_file.file_commands", "apply", lambda files: files.READING),
    "events": at("events", "events"),
    "top": at("top", "top"),
    "version": at("node_commands.inquiries", "version"),
}
#: All operator's commands, without those that run the service.
OPERATORS = Group(
    "Bare-metal provisioning that loses nothing.",
    {
        **GROUPS,
        **ALONE,
        "conductor": Group("Conductors: the processes that manage nodes.", CONDUCTOR),
    },
)


def _print_release(is_requested: bool) -> None:
    if is_requested:
        from importlib.metadata import version  # slow to import

        typer.echo(f"ingot {version('ingot')}")
        raise typer.Exit


def options(
    _version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_release, help="Print the version"),
    ] = False,
) -> None:
    """Bare-metal provisioning that loses nothing."""


def join(
    app: typer.Typer,
    conductor: typer.Typer,
    without_api: Mapping[str, Mapping[str, typer.Typer]],
) -> None:
    """
    Add the operator's commands to an application and to its group `conductor`.

    without_api: the commands of `WITHOUT_API` by group and name.
    """
    for name, group in GROUPS.items():
        group = Group(group.help_text, {**group.entries, **without_api.get(name, {})})
        app.add_typer(application(group), name=name)
    for name, load in CONDUCTOR.items():
        add(conductor, name, load())
    for name, load in ALONE.items():
        add(app, name, load())
    app.command("completion")(completion.completion)
    app.callback()(options)
    completion.answer_shells()


def operators() -> typer.Typer:
    """Create an application with the operator's commands only; it starts faster."""
    app = application(OPERATORS)
    app.callback()(options)
    completion.answer_shells()
    return app


#: Option of every command -> whether a value follows it.
_COMMON = {
    **dict.fromkeys(("--url", "--os-token", "--os-cacert", "--cacert"), True),
    **dict.fromkeys(("--output", "-o", "-f", "--fields", "-c"), True),
    **dict.fromkeys(("--insecure", "--color", "--no-color"), False),
}


def with_options_last(words: Sequence[str]) -> list[str]:
    """Return a command line with the common options before its command moved to its end."""
    options: list[str] = []
    remaining = list(words)
    while remaining and (name := remaining[0].partition("=")[0]) in _COMMON:
        count = 2 if _COMMON[name] and "=" not in remaining[0] else 1
        options += remaining[:count]
        del remaining[:count]
    if not remaining or not options:
        return list(words)
    end = remaining.index("--") if "--" in remaining else len(remaining)
    return [*remaining[:end], *options, *remaining[end:]]


def has_command(words: Sequence[str]) -> bool:
    """Whether the application of `operators` has the command of a command line."""
    first_word, second = (*words, "", "")[:2]
    if first_word == "conductor":
        return second in CONDUCTOR
    if second in WITHOUT_API.get(first_word, ()):
        return False
    return first_word in OPERATORS.entries or first_word == "--version"
