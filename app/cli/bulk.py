"""
Commands for many nodes, which are named or selected by filters.

Several threads send the requests. The result of each node is printed as soon as it is known;
failures are printed together at the end.
"""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Annotated, Any, NamedTuple, TypeVar

import typer
from typer.core import TyperArgument

from app.cli.commands import Yes, node_names, option
from app.cli.rest import Api
from app.cli.terminal import arguments, styles
from app.cli.terminal.consoles import console, text
from app.cli.terminal.errors import Failure, NotYet, Usage
from app.cli.terminal.output import Document, Output
from app.text.sentences import counted

T = TypeVar("T")
R = TypeVar("R")

JOBS, MOST_JOBS = 8, 64
#: Nodes of a selection beyond which an action is confirmed that harms only in numbers.
MANY = 10
#: Filters of the API beside its expressions of selection.
PARAMETERS = ("conductor", "description_contains", "include_children", "parent_node", "project")
#: Of every command with `--where`.
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="EXPRESSION",
        help="Nodes that it selects, as 'power_state=error or name=rack1-*'; repeatable",
    ),
]
NamesFile = Annotated[
    str | None,
    typer.Option("--nodes", metavar="FILE", help='Names, one a line; "-": standard input'),
]


def _names_and_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete names of nodes, and the values of the argument after them."""
    argument_values = [
        item.value
        for parameter in ctx.command.params
        if isinstance(parameter, TyperArgument) and parameter.nargs == 1
        for item in parameter.shell_complete(ctx, incomplete)
    ]
    return node_names(ctx, incomplete) + argument_values


Nodes = Annotated[
    list[str] | None,
    typer.Argument(metavar="NODE...", help="Names or UUIDs", autocompletion=_names_and_words),
]
#: Options of every command that sends requests for many nodes.
SENDING = (
    option(
        "jobs",
        Annotated[int, typer.Option(min=1, max=MOST_JOBS, help="Number of parallel requests")],
        JOBS,
    ),
    option("yes", Yes, False),
)
#: Options of every command that takes `Nodes`.
OPTIONS = (option("where", Where), option("names_file", NamesFile), *SENDING)


@dataclass(frozen=True, slots=True)
class NodeSelection:
    """The nodes of a command line: named, or selected by filters."""

    names: Sequence[str]
    filters: Sequence[str] = ()  # expressions, each of which selects the nodes
    jobs: int = JOBS
    yes: bool = False  # skip the confirmation
    in_file: bool = False  # the names are those of a file

    @classmethod
    def of(cls, nodes: Sequence[str] | None, options: dict[str, Any]) -> "NodeSelection":
        """Remove its options from `options` and parse them. Raises Usage."""
        values = {parameter.name: options.pop(parameter.name) for parameter in OPTIONS}
        names, file, filters = nodes or (), values["names_file"], values["where"] or ()
        if (bool(names), bool(filters), file is not None).count(True) != 1:
            raise Usage("name nodes, or choose them by --where EXPRESSION or --nodes FILE: one of")
        if file is not None:
            names = names_in(file)
        return cls(names, filters, values["jobs"], values["yes"], file is not None)

    @property
    def is_indirect(self) -> bool:
        """Whether the nodes are not named in the command itself."""
        return bool(self.filters) or self.in_file

    @property
    def only_node(self) -> str | None:
        """The named node, if it is the only one."""
        return self.names[0] if len(self.names) == 1 else None

    def nodes(self, api: Api) -> list[str]:
        """Return the name of each node, or its UUID if it has none. Raises Failure."""
        if not self.filters:
            return list(dict.fromkeys(self.names))
        query: dict[str, Any] = {**filters_of(self.filters), "fields": "uuid,name"}
        nodes = api.every("nodes", **query)
        return [node["name"] or node["uuid"] for node in nodes]


def names_in(path: str) -> Sequence[str]:
    """Read names of nodes: one a line, without blank lines and those with "#". Raises Usage."""
    lines = (line.strip() for line in arguments.lines("--nodes", path))
    names = [line for line in lines if line and not line.startswith("#")]
    if not names:
        raise Usage(f"--nodes: {path} names no nodes")
    return names


def filters_of(choices: Sequence[str]) -> Mapping[str, str]:
    """Return the parameters of the list of the nodes that `--where` selects. Raises Usage."""
    parameters: dict[str, str] = {}
    expressions = []
    for choice in choices:
        name, _, value = choice.partition("=")
        if not choice.strip() or (name.isidentifier() and "=" in choice and not value):
            raise Usage(f"--where: {choice!r} chooses no nodes")
        if name in parameters:
            raise Usage(f"--where: {name} can be given once")
        if name in PARAMETERS:
            parameters[name] = value
        else:
            expressions.append(choice)
    if expressions:
        if len(expressions) > 1:
            expressions = [f"({expression})" for expression in expressions]
        parameters["where"] = " and ".join(expressions)
    return parameters


class Outcome(NamedTuple):
    """Result for one node: for scripts, and for people."""

    document: Document
    text: str


NodeAction = Callable[[Api, str], Outcome]


def for_each_node(
    api: Api,
    output: Output,
    selection: NodeSelection,
    action: NodeAction,
    follow_up: Callable[[Api, str, Outcome], Outcome] | None = None,
    *,
    destroys: str = "",
    disturbs: str = "",
) -> None:
    """
    Run `action` for every node.

    follow_up: second phase, called with the result of `action` after all nodes passed the first.
    destroys: name of the action if nodes that are not named in the command need a confirmation;
        else empty. disturbs: name of the action if more than MANY of them do.

    Raises NotYet: every failed node failed with NotYet. Raises Failure: a node failed otherwise.
    """
    if selection.only_node:
        outcome = action(api, selection.only_node)
        output.result(*(follow_up(api, selection.only_node, outcome) if follow_up else outcome))
        return
    nodes = selection.nodes(api)
    harm = destroys or (disturbs if len(nodes) > MANY else "")
    if harm and selection.is_indirect and nodes and not selection.yes:
        examples = ", ".join(nodes[:5]) + (", ..." if len(nodes) > 5 else "")
        confirm(f"{harm}: {counted(len(nodes), 'node')} ({examples})")
    results: dict[str, Outcome | Failure] = {}
    pending_nodes = nodes
    if follow_up:
        results = dict(in_parallel(api, nodes, selection.jobs, action))
        requested = {
            node: result for node, result in results.items() if isinstance(result, Outcome)
        }
        pending_nodes, second_phase = list(requested), follow_up

        def action(api: Api, node: str) -> Outcome:
            return second_phase(api, node, requested[node])

    for node, result in in_parallel(api, pending_nodes, selection.jobs, action):
        results[node] = result
        if output.people and isinstance(result, Outcome):
            output.say(result.text)
    _conclude(output, nodes, results)


def in_parallel(
    api: Api, items: Sequence[T], jobs: int, action: Callable[[Api, T], R]
) -> Iterator[tuple[T, R | Failure]]:
    """
    Yield the result of each item, such as the name of a node, in order of completion.

    The threads are daemons: an executor would wait for them after Ctrl-C.
    """
    waiting, results = SimpleQueue[T](), SimpleQueue[tuple[T, R | Exception]]()
    for item in items:
        waiting.put(item)

    def work() -> None:
        thread_api = api.another()
        with suppress(Empty):
            while True:
                item = waiting.get_nowait()
                try:
                    results.put((item, action(thread_api, item)))
                except Exception as error:  # raised again where the results are read
                    results.put((item, error))

    for _ in range(min(jobs, len(items))):
        threading.Thread(target=work, daemon=True).start()
    for _ in items:
        item, result = results.get()
        if isinstance(result, Exception) and not isinstance(result, Failure):
            raise result
        yield item, result


def _conclude(
    output: Output, nodes: Sequence[str], results: Mapping[str, Outcome | Failure]
) -> None:
    """Print the failures, and for scripts all results. Raises Failure, NotYet."""
    failed = {node: result for node in nodes if isinstance(result := results[node], Failure)}
    if not output.people:
        documents = (_document(node, results[node]) for node in nodes)
        output.items(documents, ("node", "ok", "error"))
    elif not nodes:
        output.say("there is no such node")
    if not failed:
        return
    errors = console(output.colour, stderr=True)
    for node, failure in failed.items():
        errors.print(text(f"{node}: {failure}", styles.TROUBLE))
    kind = NotYet if all(isinstance(failure, NotYet) for failure in failed.values()) else Failure
    raise kind(f"{len(failed)} of {counted(len(nodes), 'node')} failed, for the reasons above")


def _document(node: str, result: Outcome | Failure) -> Document:
    if isinstance(result, Failure):
        return {"node": node, "ok": False, "error": str(result), "result": None}
    return {"node": node, "ok": True, "error": None, "result": result.document}


def confirm(question: str) -> None:
    """
    Ask for a confirmation.

    Raises Usage: there is no terminal. Raises Failure: the user refused.
    """
    if not sys.stdin.isatty():
        raise Usage(f"{question}: needs --yes where there is no terminal")
    if not typer.confirm(f"{question}?", err=True):
        raise Failure("nothing was done")
