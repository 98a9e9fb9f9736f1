"""
How a function becomes a command: with the options that all have, and failures told in one line.
"""

import inspect
import os
from collections.abc import Callable, Iterable
from functools import wraps
from inspect import Parameter
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from app.cli.output import Form, Output
from app.cli.rest import DEFAULT_URL, Api, Credentials, Failure

#: Seconds that are longer than anything takes.
FOREVER = 10.0**9

Url = Annotated[str, typer.Option(envvar=["INGOT_URL", "OS_ENDPOINT"], help="Where the service is")]
Token = Annotated[
    str | None, typer.Option("--os-token", envvar="OS_TOKEN", help="A token of Keystone's")
]
Written = Annotated[Form, typer.Option("--output", "-o", "-f", help="How to write the answer")]
Fields = Annotated[
    str | None, typer.Option("--fields", "-c", help="What to show, separated by commas")
]


def option(name: str, annotation: Any, default: Any = None) -> Parameter:
    """An option that a table, not a function's signature, declares."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


#: What every command takes.
COMMON = (
    option("url", Url, DEFAULT_URL),
    option("os_token", Token),
    option("output", Written, Form.TABLE),
    option("fields", Fields),
)


def node_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """The nodes whose name or UUID begins so; none when the service cannot be asked."""
    try:
        credentials = Credentials.of(os.environ, ctx.params.get("os_token"))
        api = Api(ctx.params.get("url") or DEFAULT_URL, credentials)
        known = [each["name"] or each["uuid"] for each in api.every("nodes", fields="name,uuid")]
    except Failure:
        return []
    return [name for name in known if name.startswith(incomplete)]


Node = Annotated[
    str, typer.Argument(metavar="NODE", help="Name or UUID", autocompletion=node_names)
]


class Waiting(TyperCommand):
    """A command whose --wait may stand alone: then it waits for as long as it takes."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = list(args)
        for at, word in enumerate(words):
            if word == "--wait" and not _is_number(words[at + 1 : at + 2]):
                words[at] = f"--wait={FOREVER:g}"
        return super().parse_args(ctx, words)


def _is_number(words: list[str]) -> bool:
    return bool(words) and words[0].replace(".", "", 1).isdecimal()


def add(
    group: typer.Typer, name: str, function: Callable[..., None], options: Iterable[Parameter] = ()
) -> None:
    """
    Make a function a command of a group. It is called with the API and the output first.

    options: those that it takes as `**values`, beside those of its signature.
    """
    own = list(inspect.signature(function, eval_str=True).parameters.values())[2:]
    named = [each for each in own if each.kind is not Parameter.VAR_KEYWORD]

    @wraps(function)
    def run(**values: Any) -> None:
        url, token, form, fields = (values.pop(each.name) for each in COMMON)
        try:
            chosen = tuple(part.strip() for part in (fields or "").split(",") if part.strip())
            api = Api(url, Credentials.of(os.environ, token))
            function(api, Output(form, chosen), **values)
        except Failure as failure:
            typer.echo(f"ingot: {failure}", err=True)
            raise typer.Exit(failure.exit_status) from failure

    run.__signature__ = inspect.Signature([*named, *options, *COMMON])  # type: ignore[attr-defined]
    run.__annotations__ = {}
    group.command(name, cls=Waiting)(run)
