"""
Documents of a BMC as JSON, for facts that a machine may lack.

sushy refuses a whole resource for one value of an unexpected type. Here a document that the BMC
lacks, or serves malformed, is left out and noted; its reader takes the values that it understands.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from drivers.core.errors import Unexpected
from drivers.redfish.transport.conversions import elements, entry, is_present, link_path, link_paths
from drivers.redfish.transport.session import Session

Document = Mapping[str, Any]

_SYSTEMS = "/redfish/v1/Systems"


class Documents:
    """Documents that one command reads. Use inside `client.turn` only."""

    def __init__(self, bmc: Session) -> None:
        self._bmc = bmc
        self.omitted: list[str] = []  # paths of documents that were left out; the log has reasons

    @cached_property
    def system(self) -> Document:
        """
        The document of the node's system, read again for this command.

        Raises Unexpected: it is no JSON object, even if read without sushy.
        """
        resources: list[Any] = []
        with self._bmc.skip_unreadable(self._bmc.path or _SYSTEMS):
            resources.append(self._bmc.system(fresh=True))
        document: Document | None
        if resources:
            document = resources[0].json
        else:
            document = self.at(self._bmc.path or self._only_system())
        if document is None:
            raise Unexpected(f"BMC {self._bmc.access.address} sent no document of its system")
        return document

    def at(self, path: object) -> Document | None:
        """
        Read the document at a path, or at a URL of the same BMC; None as in `Session.find`, and if
        the path is no text.
        """
        if not isinstance(path, str) or not path:
            return None
        document = self._bmc.find(path)
        if document is None:
            self.omitted.append(path)
        return document

    def part(self, owner: object, *names: str) -> Document | None:
        """Read the document that a property of `owner` links to."""
        return self.at(link_path(owner, *names))

    def members(self, owner: object, *names: str) -> Iterator[Document]:
        """
        Read the parts to which names lead from `owner`: a collection, or a list of links.

        Omits parts with the state Absent.
        """
        members = entry(owner, *names)
        if not isinstance(members, list):
            members = entry(self.part(owner, *names), "Members")
        for path in link_paths(members):
            document = self.at(path)
            if document is not None and is_present(document):
                yield document

    def _only_system(self) -> str | None:
        """Return the path of the BMC's system; None if it has none, or several."""
        members = elements(self.part(self._bmc.open().json, "Systems"), "Members")
        return link_path(members[0]) if len(members) == 1 else None
