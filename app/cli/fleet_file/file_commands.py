"""Commands for fleet files: `ingot node import`, `ingot node export` and `ingot apply`."""

import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli import bulk
from app.cli.bulk import SENDING, NamesFile, Nodes, Where, names_in
from app.cli.commands import option
from app.cli.driver_keys import DriverKeys
from app.cli.fleet_file import execution, given_values, machine_files, plan
from app.cli.fleet_file.fleet_nodes import Exporter, Fleet
from app.cli.fleet_file.machine_files import SUFFIXES, FileForm
from app.cli.fleet_file.plan import Action, Machine
from app.cli.rest import Api
from app.cli.terminal import consoles, styles
from app.cli.terminal.errors import Failure, Usage
from app.cli.terminal.output import Document, Output
from app.text.sentences import counted

File = Annotated[str, typer.Argument(metavar="FILE", help='CSV, YAML or JSON; "-": standard input')]
Form = Annotated[
    FileForm | None,
    typer.Option("--form", help="Form of the file; default: by its name, or its beginning"),
]
#: Options of the commands that read a fleet file.
READING = (
    option("form", Form),
    option("columns", Annotated[
        list[str] | None,
        typer.Option(
            "--map", metavar="COLUMN=FIELD",
            help="Field of a column of a spreadsheet, several times; without FIELD it is ignored",
        ),
    ]),
    option("defaults", Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="FIELD=VALUE",
            help="Value for machines that the file gives none, several times",
        ),
    ]),
    option("secrets", Annotated[
        list[str] | None,
        typer.Option(
            "--secret", metavar="FIELD=@FILE",
            help="Secret for machines that the file gives none: =@- reads a line of standard input,"
            " without = it is typed; several times",
        ),
    ]),
    option("secrets_file", Annotated[
        str | None,
        typer.Option(
            "--secrets", metavar="FILE", help="Another file, with secrets of the same machines"
        ),
    ]),
    option("dry_run", Annotated[
        bool, typer.Option("--dry-run", help="Only print the differences")
    ], False),
    *SENDING,
)  # fmt: skip
SIGNS = {
    Action.CREATE: "+", Action.CHANGE: "~", Action.DELETE: "-", Action.NOTHING: "=",
    Action.REFUSE: "!",
}  # fmt: skip
COLUMNS = ("place", "node", "action", "ok", "error")
#: Names in a question.
MOST_NAMES = 20


def import_nodes(api: Api, output: Output, file: File, **values: object) -> None:
    """
    Enroll the machines of a file, and change those that exist; wrong ones are reported.

    A second run changes nothing. Fields that the file does not name stay as they are.
    """
    options = _Options(values)
    machines = _compared(api, Fleet.read(api), file, options)
    existing_machines = [machine for machine in machines if machine.node]
    execution.rehearse_all(api, machines if options.dry_run else existing_machines, options.jobs)
    if options.dry_run:
        _show(output, machines)
        _raise_for(machines)
        return
    _ask(machines, options)
    _run(api, output, machines, options.jobs)


def apply(
    api: Api,
    output: Output,
    file: File,
    *,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune", help="Delete nodes, and ports of nodes, that the file does not have"
        ),
    ] = False,
    expressions: Annotated[
        list[str] | None,
        typer.Option("--where", metavar="EXPRESSION", help="With --prune: delete of these only"),
    ] = None,
    **values: object,
) -> None:
    """
    Give nodes the fields of a file; nothing changes if the service refuses any of it.

    Only what the file names is changed; deletions are listed, and need a confirmation.
    """
    options = _Options(values)
    if expressions and not prune:
        raise Usage("--where: only with --prune")
    fleet = Fleet.read(api)
    machines = _compared(api, fleet, file, options, prune_ports=prune)
    if prune:
        uuids = _selected(api, expressions) if expressions else list(fleet.nodes)
        machines += plan.surplus(machines, fleet, uuids)
    execution.rehearse_all(api, machines, options.jobs)
    if options.dry_run or output.people:
        _show(output, machines)
    _raise_for(machines, "; nothing was done" if not options.dry_run else "")
    if options.dry_run:
        return
    _ask(machines, options)
    _run(api, output, machines, options.jobs)


def export(
    api: Api,
    output: Output,
    *,
    nodes: Nodes = None,
    expressions: Where = None,
    names_file: NamesFile = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Default: standard output")
    ] = None,
    form: Form = None,
) -> None:
    """
    Write nodes, with their ports and traits, to a file that `node import` and `apply` read.

    Secrets are left out, and so are fields of instances and default interfaces.
    """
    if [bool(nodes), bool(expressions), names_file is not None].count(True) > 1:
        raise Usage("name nodes, or choose them by --where EXPRESSION or --nodes FILE: one of")
    form = form or SUFFIXES.get(file.suffix.lower() if file else "", FileForm.YAML)
    fleet = Fleet.read(api)
    names = nodes or (names_in(names_file) if names_file is not None else None)
    uuids = _selected(api, expressions) if expressions else list(fleet.nodes)
    if names is not None:
        uuids = [*dict.fromkeys(map(fleet.uuid_of, names))]
        if unknown_names := [name for name in uuids if name not in fleet.nodes]:
            raise Failure(f"there is no node {unknown_names[0]}")
    uuids.sort(key=fleet.name_of)  # so that two exports differ by the changes between them
    exporter = Exporter(api, fleet)
    text = machine_files.written(form, [exporter.machine(fleet.nodes[uuid]) for uuid in uuids])
    for path, number in sorted(exporter.secrets.items()):
        typer.echo(
            f"ingot: left out, as it is secret: {path} of {counted(number, 'node')}", err=True
        )
    if file is None:
        typer.echo(text, nl=False)
    else:
        _replace(file, text)
        summary = {"file": str(file), "nodes": len(uuids), "left_out": exporter.secrets}
        output.result(summary, f"{file}: {counted(len(uuids), 'node')}")


class _Options:
    """Values of `READING`."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.form: FileForm | None = values["form"]
        self.columns = given_values.columns_of(values["columns"] or ())
        self.defaults = given_values.defaults_of(values["defaults"] or ())
        self.secrets: list[str] = values["secrets"] or []
        self.secrets_file: str | None = values["secrets_file"]
        self.jobs: int = values["jobs"]
        self.dry_run: bool = values["dry_run"]
        self.yes: bool = values["yes"]


def _compared(
    api: Api, fleet: Fleet, file: str, options: _Options, *, prune_ports: bool = False
) -> list[Machine]:
    """Read a file, and compare it with the nodes. Raises Usage: it cannot be read."""
    entries = machine_files.read("FILE", file, options.form, options.columns)
    if options.secrets_file is not None:
        if file == "-" == options.secrets_file:
            raise Usage("--secrets: standard input is the other file already")
        secret_entries = machine_files.read("--secrets", options.secrets_file, None)
        given_values.add_of_file(entries, secret_entries)
    given_values.add(entries, options.defaults)
    given_values.add(entries, given_values.secrets_of(options.secrets))
    for entry in entries:
        entry.check()
    machines = plan.compare(entries, fleet, prune_ports=prune_ports)
    keys = DriverKeys(api)
    for machine in machines:
        if not machine.problems:
            driver = machine.values.get("driver") or (machine.node or {})["driver"]
            info = machine.values.get("driver_info") or {}
            machine.problems += keys.problems(driver, info)
    for entry, machine in zip(entries, machines, strict=True):
        machine.problems = [entry.located(problem) for problem in machine.problems]
    return machines


def _selected(api: Api, expressions: Sequence[str]) -> list[str]:
    """Return the UUIDs of the nodes that expressions select."""
    query: dict[str, Any] = {**bulk.filters_of(expressions), "fields": "uuid"}
    return [node["uuid"] for node in api.every("nodes", **query)]


def _show(output: Output, machines: Sequence[Machine]) -> None:
    """Print the plan: the differences of each machine, for scripts as documents."""
    if not output.people:
        output.items([_document(machine) for machine in machines], COLUMNS)
        return
    for machine in machines:
        action, place = machine.action, f" ({machine.place})" if machine.place else ""
        if action is Action.REFUSE:
            output.say(f"! {machine.label}{place}: {'; '.join(machine.problems)}", styles.TROUBLE)
        elif action is not Action.NOTHING:
            output.say(f"{SIGNS[action]} {machine.label}{place}: {action}")
            for line in machine.lines():
                output.say(f"    {line}")
    output.say(_summary(Counter(machine.action for machine in machines), "to "))


def _summary(counts: Counter[Action], prefix: str = "") -> str:
    words = {
        Action.CREATE: f"{prefix}create", Action.CHANGE: f"{prefix}change",
        Action.DELETE: f"{prefix}delete", Action.NOTHING: "unchanged", Action.REFUSE: "refused",
    }  # fmt: skip
    return ", ".join(f"{counts[action]} {word}" for action, word in words.items())


def _document(machine: Machine, failure: Failure | None = None) -> Document:
    error = str(failure) if failure else "; ".join(machine.problems) or None
    return {
        "place": machine.place or None, "node": machine.label, "action": machine.action.value,
        "ok": error is None, "error": error, "changes": machine.lines(),
    }  # fmt: skip


def _raise_for(machines: Sequence[Machine], consequence: str = "") -> None:
    """Raises Failure: a machine is refused."""
    refused = [machine for machine in machines if machine.problems]
    if refused:
        raise Failure(
            f"{len(refused)} of {counted(len(machines), 'machine')} refused,"
            f" for the reasons above{consequence}"
        )


def _ask(machines: Sequence[Machine], options: _Options) -> None:
    """Ask before a plan that does harm if it is a mistake. Raises Usage, Failure."""
    accepted = [machine for machine in machines if not machine.problems]
    harms = {
        "delete": [machine.label for machine in accepted if machine.is_pruned],
        "delete ports of": [machine.label for machine in accepted if machine.loses_ports],
        "change credentials of": [machine.label for machine in accepted if machine.has_new_secrets],
    }
    questions = [f"{verb} {_counted(names)}" for verb, names in harms.items() if names]
    if questions and not options.yes:
        bulk.confirm("; ".join(questions))


def _counted(names: Sequence[str]) -> str:
    ellipsis = ", ..." if len(names) > MOST_NAMES else ""
    return f"{counted(len(names), 'node')} ({', '.join(names[:MOST_NAMES])}{ellipsis})"


def _run(api: Api, output: Output, machines: Sequence[Machine], jobs: int) -> None:
    """Apply a plan; report each machine, the failures at the end. Raises Failure."""
    failures: dict[int, Failure] = {
        id(machine): Failure("; ".join(machine.problems))
        for machine in machines
        if machine.problems
    }
    counts = Counter({Action.REFUSE: len(failures)})
    runnable = [machine for machine in machines if not machine.problems]
    for machine, failure in execution.run(api, runnable, jobs):
        counts[Action.REFUSE if failure else machine.action] += 1
        if failure:
            failures[id(machine)] = failure
        elif output.people and machine.action is not Action.NOTHING:
            output.say(f"{machine.label}: {execution.DONE[machine.action]}")
    if output.people:
        words = [f"{counts[action]} {word}" for action, word in execution.DONE.items()]
        output.say(", ".join([*words, f"{len(failures)} failed"]))
    else:
        output.items([_document(item, failures.get(id(item))) for item in machines], COLUMNS)
    if not failures:
        return
    errors = consoles.console(output.colour, stderr=True)
    for machine in machines:
        if failure := failures.get(id(machine)):
            place = f"{machine.place}, " if machine.place else ""
            errors.print(consoles.text(f"{place}{machine.label}: {failure}", styles.TROUBLE))
    raise Failure(
        f"{len(failures)} of {counted(len(machines), 'machine')} failed, for the reasons above"
    )


def _replace(path: Path, text: str) -> None:
    """Write a file as a whole, or not at all. Raises Usage."""
    try:
        with tempfile.NamedTemporaryFile(
            "w",
            encoding="utf-8",
            newline="",
            dir=path.parent,
            prefix=f".{path.name}.",
            delete=False,
        ) as part:
            try:
                part.write(text)
                part.flush()
                os.fsync(part.fileno())
                Path(part.name).replace(path)
            except BaseException:
                Path(part.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise Usage(f"--file: {path}: {error.strerror}") from error
