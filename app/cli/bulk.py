"""
One command for many nodes: named one after the other, or chosen by what they are.

A few are asked at a time. Each node has its line of result as soon as it is known; failures stand
together at the end.
"""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperArgument

from app.cli import given, styles
from app.cli.commands import node_names, option
from app.cli.failures import Failure, NotYet, Usage
from app.cli.output import Document, Output
from app.cli.rest import Api
from app.cli.screen import console, text

JOBS, MOST_JOBS = 8, 64
#: Parameters of a list that choose nothing.
NO_FILTERS = ("fields", "limit", "marker", "sort_key", "sort_dir", "detail")


def _names_and_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """Nodes, and the words of the argument behind them."""
    words = [
        item.value
        for each in ctx.command.params
        if isinstance(each, TyperArgument) and each.nargs == 1
        for item in each.shell_complete(ctx, incomplete)
    ]
    return node_names(ctx, incomplete) + words


Nodes = Annotated[
    list[str] | None,
    typer.Argument(metavar="NODE...", help="Names or UUIDs", autocompletion=_names_and_words),
]
#: Options of every command that takes `Nodes`.
OPTIONS = (
    option(
        "where",
        Annotated[
            list[str] | None,
            typer.Option(
                metavar="FIELD=VALUE",
                help="In place of names: every node with this value; may be repeated",
            ),
        ],
    ),
    option(
        "jobs",
        Annotated[int, typer.Option(min=1, max=MOST_JOBS, help="How many nodes at a time")],
        JOBS,
    ),
    option("yes", Annotated[bool, typer.Option("--yes", "-y", help="Confirm beforehand")], False),
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The nodes of a command line: named, or chosen by filters. yes: confirmed beforehand."""

    names: Sequence[str]
    where: Sequence[str] = ()
    jobs: int = JOBS
    yes: bool = False

    @classmethod
    def of(cls, nodes: Sequence[str] | None, options: dict[str, Any]) -> "Chosen":
        """Takes its own options out of all that were given. Raises Usage."""
        values = {each.name: options.pop(each.name) for each in OPTIONS}
        chosen = cls(nodes or (), values["where"] or (), values["jobs"], values["yes"])
        if bool(chosen.names) == bool(chosen.where):
            raise Usage("name nodes, or choose them by --where FIELD=VALUE: one of both")
        return chosen

    @property
    def single(self) -> str | None:
        """The only node that was named."""
        return self.names[0] if len(self.names) == 1 else None

    def nodes(self, api: Api) -> list[str]:
        """The name of each, or its UUID. Raises Failure."""
        if not self.where:
            return list(dict.fromkeys(self.names))
        filters = given.texts_of("--where", self.where)
        if len(filters) < len(self.where):
            raise Usage("--where: a field can be given once")
        for name, value in filters.items():
            if name in NO_FILTERS or not value:
                raise Usage(f"--where: {name}={value} chooses no nodes")
        query: dict[str, Any] = {**filters, "fields": "uuid,name"}
        found = api.every("nodes", **query)
        return [each["name"] or each["uuid"] for each in found]


class Told(NamedTuple):
    """The result for one node: for scripts, and for people."""

    document: Document
    text: str


Act = Callable[[Api, str], Told]


def each(
    api: Api,
    out: Output,
    chosen: Chosen,
    act: Act,
    then: Callable[[Api, str, Told], Told] | None = None,
    *,
    destroys: str = "",
) -> None:
    """
    Do the same to every node. Raises Failure if a node failed, NotYet if all failures are NotYet.

    then: the second half, called with the result of `act` once all nodes have been asked.
    destroys: names the action if it needs confirmation for nodes that filters chose.
    """
    if chosen.single:
        told = act(api, chosen.single)
        out.told(*(then(api, chosen.single, told) if then else told))
        return
    nodes = chosen.nodes(api)
    if destroys and chosen.where and nodes and not chosen.yes:
        _confirm(destroys, nodes)
    results: dict[str, Told | Failure] = {}
    going = nodes
    if then:
        results = dict(_parallel(api, nodes, chosen.jobs, act))
        asked = {node: told for node, told in results.items() if isinstance(told, Told)}
        going, follow = list(asked), then

        def act(api: Api, node: str) -> Told:
            return follow(api, node, asked[node])

    for node, result in _parallel(api, going, chosen.jobs, act):
        results[node] = result
        if out.people and isinstance(result, Told):
            out.say(result.text)
    _conclude(out, nodes, results)


def _parallel(
    api: Api, nodes: Sequence[str], jobs: int, act: Act
) -> Iterator[tuple[str, Told | Failure]]:
    """
    The result for each node, in order of completion.

    Its threads are daemons: an executor would wait for them after Ctrl-C.
    """
    waiting, results = SimpleQueue[str](), SimpleQueue[tuple[str, Told | Exception]]()
    for node in nodes:
        waiting.put(node)

    def work() -> None:
        own = api.another()
        with suppress(Empty):
            while True:
                node = waiting.get_nowait()
                try:
                    results.put((node, act(own, node)))
                except Exception as error:  # raised again where the results are read
                    results.put((node, error))

    for _ in range(min(jobs, len(nodes))):
        threading.Thread(target=work, daemon=True).start()
    for _ in nodes:
        node, result = results.get()
        if isinstance(result, Exception) and not isinstance(result, Failure):
            raise result
        yield node, result


def _conclude(out: Output, nodes: Sequence[str], results: Mapping[str, Told | Failure]) -> None:
    """Report failures, and to scripts all results. Raises Failure, NotYet."""
    failed = {node: told for node in nodes if isinstance(told := results[node], Failure)}
    if not out.people:
        documents = (_document(node, results[node]) for node in nodes)
        out.items(documents, ("node", "ok", "error"))
    elif not nodes:
        out.say("there is no such node")
    if not failed:
        return
    errors = console(out.colour, stderr=True)
    for node, failure in failed.items():
        errors.print(text(f"{node}: {failure}", styles.TROUBLE))
    kind = NotYet if all(isinstance(each, NotYet) for each in failed.values()) else Failure
    raise kind(f"{len(failed)} of {len(nodes)} nodes failed, for the reasons above")


def _document(node: str, result: Told | Failure) -> Document:
    if isinstance(result, Failure):
        return {"node": node, "ok": False, "error": str(result), "result": None}
    return {"node": node, "ok": True, "error": None, "result": result.document}


def _confirm(doing: str, names: Sequence[str]) -> None:
    """Ask for confirmation. Raises Usage without a terminal, Failure for a refusal."""
    shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    what = f"{doing}: {len(names)} nodes ({shown})"
    if not sys.stdin.isatty():
        raise Usage(f"{what}: needs --yes where there is no terminal")
    if not typer.confirm(f"{what}?", err=True):
        raise Failure("nothing was done")
