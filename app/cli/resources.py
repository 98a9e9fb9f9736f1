"""
Commands for resources other than nodes: list, show, create, set, unset and delete, derived from one
table for each resource.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Annotated, Any

import typer

from app.cli.commands import Command, Limit, option
from app.cli.fields import Fields
from app.cli.rest import Api
from app.cli.terminal.errors import Failure, Usage
from app.cli.terminal.output import Document, Output
from app.cli.terminal.tables import UUID

Ident = Annotated[str, typer.Argument(metavar="WHICH", help="UUID, or name")]
Idents = Annotated[list[str], typer.Argument(metavar="WHICH...", help="UUIDs, or names")]
NO_FIELDS = Fields(())


def checked_uuid(uuid: str, kind: str, group: str) -> str:
    """Check the form of a UUID. group: of the commands for the kind. Raises Usage."""
    if not UUID.fullmatch(uuid.lower()):
        raise Usage(f"{uuid!r} is not the UUID of a {kind}; `ingot {group} list` has them")
    return uuid


@dataclass(frozen=True, slots=True)
class Kind:
    """A resource, and the attributes of its commands."""

    singular: str  # in help texts: "a port"
    plural: str  # in help texts: "ports"
    path: str  # of the collection
    columns: Sequence[str]  # of the list
    fields: Fields = NO_FIELDS  # that can be set
    filters: Sequence[tuple[str, str]] = ()  # of the list: (parameter, help text)
    name_field: str = ""  # field that identifies an item beside its UUID, and filters the list
    paged: bool = True

    def listing(self) -> Command:
        def items(api: Api, output: Output, **values: Any) -> None:
            if self.paged:
                fields = ",".join(output.fields or self.columns)
                output.items(api.every(self.path, fields=fields, **values), self.columns)
            else:
                output.items(api.get(self.path)[self.path], self.columns)

        items.__doc__ = f"List {self.plural}."
        options = [
            option(name, Annotated[str | None, typer.Option(help=f"Only those {help_text}")])
            for name, help_text in self.filters
        ]
        return Command(items, [*options, *([option("limit", Limit)] if self.paged else ())])

    def showing(self) -> Command:
        def show(api: Api, output: Output, ident: Ident) -> None:
            fields = ",".join(output.fields) or None
            output.item(api.get(self.path, self._uuid_of(api, ident), fields=fields))

        return self._command(show, f"Show {self.singular}.")

    def creating(self) -> Command:
        def create(
            api: Api,
            output: Output,
            uuid: Annotated[str | None, typer.Option(help="Its UUID; else a new one")] = None,
            **values: object,
        ) -> None:
            body = self.fields.body(values) | ({"uuid": uuid} if uuid else {})
            output.item(api.request("POST", self.path, body=body).json(), self.columns)

        return self._command(create, f"Create {self.singular}.", self.fields.creating)

    def setting(self) -> Command:
        def change(api: Api, output: Output, ident: Ident, **values: object) -> None:
            self._change(api, output, ident, self.fields.additions(values))

        return self._command(
            change, f"Set fields of {self.singular}, all or none.", self.fields.setting
        )

    def unsetting(self) -> Command:
        def change(api: Api, output: Output, ident: Ident, **values: object) -> None:
            self._change(api, output, ident, self.fields.removals(values))

        help_text = f"Remove fields of {self.singular}, all or none."
        return self._command(change, help_text, self.fields.unsetting)

    def deleting(self) -> Command:
        def delete(api: Api, output: Output, idents: Idents) -> None:
            for ident in idents:
                api.request("DELETE", self.path, self._uuid_of(api, ident))
                output.result({"which": ident, "deleted": True}, f"{ident}: deleted")

        return self._command(delete, f"Delete {self.plural}.")

    def _change(self, api: Api, output: Output, ident: str, patch: list[Document]) -> None:
        if not patch:
            raise Usage("nothing to change was named; --help says what there is")
        answer = api.request("PATCH", self.path, self._uuid_of(api, ident), body=patch)
        field_names = ", ".join(dict.fromkeys(change["path"].split("/")[1] for change in patch))
        output.result(answer.json(), f"{ident}: changed {field_names}")

    def _uuid_of(self, api: Api, ident: str) -> str:
        """Return the UUID for an identification that the API accepts in GET or as a filter only."""
        if not self.name_field or UUID.fullmatch(ident.lower()):
            return ident
        if ":" not in ident:
            return str(api.get(self.path, ident, fields="uuid")["uuid"])
        items = api.get(self.path, **{self.name_field: ident})[self.path]
        if not items:
            raise Failure(
                f"there is no {self.path.removesuffix('s')} whose {self.name_field} is {ident}"
            )
        return str(items[0]["uuid"])

    @staticmethod
    def _command(
        function: Callable[..., None], help_text: str, options: Sequence[Parameter] = ()
    ) -> Command:
        function.__doc__ = help_text
        return Command(function, options)
