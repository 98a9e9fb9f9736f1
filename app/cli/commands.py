"""
Turn a function into a command, with the common options and one-line error messages.
"""

import inspect
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from app.cli import DEFAULT_URL
from app.cli.terminal.errors import Failure
from app.cli.terminal.output_format import Form
from app.lifecycle.hold_kinds import HoldKind
from app.text.sentences import harmless

#: Timeout in seconds of a `--wait` without a value.
FOREVER = 10.0**9

Url = Annotated[
    str, typer.Option("--url", envvar=["INGOT_URL", "OS_ENDPOINT"], help="URL of the service")
]
Token = Annotated[str | None, typer.Option("--os-token", envvar="OS_TOKEN", help="Keystone token")]
Bundle = Annotated[
    str | None,
    typer.Option(
        "--os-cacert", "--cacert", envvar="OS_CACERT", metavar="FILE",
        help="CA certificates to trust",
    ),
]  # fmt: skip
Insecure = Annotated[bool, typer.Option("--insecure", help="Skip the verification of certificates")]
OutputForm = Annotated[Form, typer.Option("--output", "-o", "-f", help="Output format")]
Fields = Annotated[
    str | None, typer.Option("--fields", "-c", help="Fields to show, separated by commas")
]
Colour = Annotated[
    bool | None,
    typer.Option(
        "--color/--no-color", help="Use colours; default: on a terminal, unless NO_COLOR is set"
    ),
]


def option(name: str, annotation: object, default: object = None) -> Parameter:
    """Declare an option outside of a function's signature."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


#: Options for the connection to the service.
CONNECTION = (
    option("service_url", Url, DEFAULT_URL),  # `url` is a field of webhooks
    option("os_token", Token),
    option("os_cacert", Bundle),
    option("insecure", Insecure, False),
)
#: Options for the output.
WRITING = (
    option("output", OutputForm, Form.TABLE),
    option("fields", Fields),
    option("color", Colour),
)


@dataclass(frozen=True, slots=True)
class Command:
    """A function, and the options that it takes as `**values`, in addition to its signature."""

    function: Callable[..., None]
    options: Sequence[Parameter] = ()


def connect(values: dict[str, Any]) -> Any:
    """Create the API client, and remove the CONNECTION options from the values. Raises Failure."""
    from app.cli.rest import Api, Credentials, trusted  # requests is slow to import

    url, token, bundle, insecure = (
        values.pop(parameter.name, parameter.default) for parameter in CONNECTION
    )
    trust = trusted(os.environ, bundle, insecure=bool(insecure))
    return Api(url or DEFAULT_URL, Credentials.of(os.environ, token), trust)


def node_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name or UUID of a node; nothing if the service is unreachable."""
    try:
        nodes = connect(dict(ctx.params)).every("nodes", fields="name,uuid")
        names = [node["name"] or node["uuid"] for node in nodes]
    except Failure:
        return []
    return [name for name in names if name.startswith(incomplete)]


def hold_kinds(incomplete: str) -> list[str]:
    """Complete the kind of a hold."""
    return [kind for kind in HoldKind if kind.startswith(incomplete)]


Node = Annotated[
    str, typer.Argument(metavar="NODE", help="Name or UUID", autocompletion=node_names)
]


Limit = Annotated[int | None, typer.Option(min=1, help="Largest number of items")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation")]


class Waiting(TyperCommand):
    """
    A command whose --wait has an optional value: without one it waits without a limit.

    Its errors about a wrong word name the nearest right one.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        arguments = list(args)
        for index, word in enumerate(arguments):
            if word == "--wait" and not _is_number(arguments[index + 1 : index + 2]):
                arguments[index] = f"--wait={FOREVER:g}"
        try:
            return super().parse_args(ctx, arguments)
        except typer.BadParameter as error:
            error.message = _corrected(error)
            raise


def _corrected(error: typer.BadParameter) -> str:
    """Return the message of an error without words of the library, with the nearest word."""
    message = error.message.removeprefix("Value error, ")
    if not (match := re.match(r"'([^']*)' is not one of (.*)", message, re.DOTALL)):
        return message
    nearest = get_close_matches(match[1], re.findall(r"'([^']*)'", match[2]), 1)
    return f"{message.rstrip('.')}; the nearest is {nearest[0]!r}." if nearest else message


def _is_number(arguments: list[str]) -> bool:
    return bool(arguments) and arguments[0].replace(".", "", 1).isdecimal()


def add(group: typer.Typer, name: str, command: Command) -> None:
    """Add a function to a group as a command; its first arguments are the API and the output."""
    function = command.function
    parameters = list(inspect.signature(function, eval_str=True).parameters.values())[2:]
    named_parameters = [
        parameter for parameter in parameters if parameter.kind is not Parameter.VAR_KEYWORD
    ]

    @wraps(function)
    def run(**values: Any) -> None:
        from app.cli.terminal.output import Output  # rich is slow to import

        form, fields, colour = (values.pop(parameter.name) for parameter in WRITING)
        try:
            names = (part.strip() for part in (fields or "").split(","))
            # as the heads of tables have them, too
            columns = tuple(name.replace(" ", "_") for name in names if name)
            function(connect(values), Output(form, columns, colour), **values)
        except Failure as failure:
            typer.echo(harmless(f"ingot: {failure}"), err=True)
            raise typer.Exit(failure.exit_status) from failure

    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [*named_parameters, *command.options, *CONNECTION, *WRITING]
    )
    run.__annotations__ = {}
    group.command(name, cls=Waiting)(run)
