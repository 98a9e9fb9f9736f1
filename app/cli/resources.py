"""
Commands for resources beside nodes: list, show, create, set, unset and delete, derived from one
table for each resource.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Annotated, Any

import typer

from app.cli.commands import Command, option
from app.cli.fields import Fields
from app.cli.rest import Api
from app.cli.terminal.errors import Failure, Usage
from app.cli.terminal.output import Document, Output
from app.cli.terminal.tables import UUID

Ident = Annotated[str, typer.Argument(metavar="WHICH", help="UUID, or name")]
Idents = Annotated[list[str], typer.Argument(metavar="WHICH...", help="UUIDs, or names")]
Limit = Annotated[int | None, typer.Option(min=1, help="Largest number of items")]
NO_FIELDS = Fields(())


@dataclass(frozen=True, slots=True)
class Kind:
    """A resource, and the attributes of its commands."""

    one: str  # in help texts: "a port"
    many: str  # in help texts: "ports"
    path: str  # of the collection
    columns: Sequence[str]  # of the list
    fields: Fields = NO_FIELDS  # that can be set
    filters: Sequence[tuple[str, str]] = ()  # of the list: (parameter, help text)
    called: str = ""  # field that identifies an item beside its UUID, and filters the list
    paged: bool = True

    def listing(self) -> Command:
        def items(api: Api, out: Output, **values: Any) -> None:
            wanted = {name: value for name, value in values.items() if value is not None}
            if self.paged:
                wanted["fields"] = ",".join(out.fields or self.columns)
                out.items(api.every(self.path, **wanted), self.columns)
            else:
                out.items(api.get(self.path, **wanted)[self.path], self.columns)

        items.__doc__ = f"List {self.many}."
        options = [
            option(name, Annotated[str | None, typer.Option(help=f"Only those {about}")])
            for name, about in self.filters
        ]
        return Command(items, [*options, *([option("limit", Limit)] if self.paged else ())])

    def showing(self) -> Command:
        def show(api: Api, out: Output, which: Ident) -> None:
            fields = ",".join(out.fields) or None
            out.item(api.get(self.path, self._found(api, which), fields=fields))

        return self._command(show, f"Show {self.one}.")

    def creating(self) -> Command:
        def create(
            api: Api,
            out: Output,
            uuid: Annotated[str | None, typer.Option(help="Its UUID; else a new one")] = None,
            **values: Any,
        ) -> None:
            body = self.fields.body(values) | ({"uuid": uuid} if uuid else {})
            out.item(api.request("POST", self.path, body=body).json(), self.columns)

        return self._command(create, f"Create {self.one}.", self.fields.creating)

    def setting(self) -> Command:
        def change(api: Api, out: Output, which: Ident, **values: Any) -> None:
            self._change(api, out, which, self.fields.additions(values))

        return self._command(change, f"Set fields of {self.one}, all or none.", self.fields.setting)

    def unsetting(self) -> Command:
        def change(api: Api, out: Output, which: Ident, **values: Any) -> None:
            self._change(api, out, which, self.fields.removals(values))

        about = f"Remove fields of {self.one}, all or none."
        return self._command(change, about, self.fields.unsetting)

    def deleting(self) -> Command:
        def delete(api: Api, out: Output, which: Idents) -> None:
            for each in which:
                api.request("DELETE", self.path, self._found(api, each))
                out.result({"which": each, "deleted": True}, f"{each}: deleted")

        return self._command(delete, f"Delete {self.many}.")

    def _change(self, api: Api, out: Output, which: str, patch: list[Document]) -> None:
        if not patch:
            raise Usage("nothing to change was named; --help says what there is")
        answer = api.request("PATCH", self.path, self._found(api, which), body=patch)
        changed = ", ".join(dict.fromkeys(each["path"].split("/")[1] for each in patch))
        out.result(answer.json(), f"{which}: changed {changed}")

    def _found(self, api: Api, which: str) -> str:
        """Return the UUID for an identification that the API accepts in GET or as a filter only."""
        if not self.called or UUID.fullmatch(which.lower()):
            return which
        if ":" not in which:
            return str(api.get(self.path, which, fields="uuid")["uuid"])
        found = api.get(self.path, **{self.called: which})[self.path]
        if not found:
            raise Failure(
                f"there is no {self.path.removesuffix('s')} whose {self.called} is {which}"
            )
        return str(found[0]["uuid"])

    @staticmethod
    def _command(
        function: Callable[..., None], about: str, options: Sequence[Parameter] = ()
    ) -> Command:
        function.__doc__ = about
        return Command(function, options)
