"""
A Redfish session with a BMC: root and system resources of sushy, kept between commands.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from drivers.redfish.transport.access import Access
from drivers.redfish.transport.command import Command
from drivers.redfish.transport.errors import errors_of, skip_unreadable

if TYPE_CHECKING:
    from sushy import Sushy
    from sushy.resources.system.system import System


class Session:
    """Session with a BMC; logs in at the first use."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.path = access.system
        self.command = Command()  # the current one
        self._root: Sushy | None = None
        self._system: System | None = None

    @property
    def token(self) -> str | None:
        """The session's token; None before the login, and with Basic authentication."""
        auth = getattr(self._root, "_auth", None)
        key = getattr(auth, "get_session_key", lambda: None)()
        return str(key) if key else None

    def open(self) -> "Sushy":
        """Log in, unless that is done; return the root resource."""
        if self._root is None:
            from drivers.redfish.transport import connector  # sushy takes half a second to load

            with errors_of(self.access):
                self._root = connector.login(self.access, self.command)
        return self._root

    def close(self) -> None:
        """Drop the session; the next command logs in again."""
        self._root = self._system = None

    def log_out(self, seconds: float) -> None:
        """
        End the session at the BMC, without another login.

        seconds: for the answer.

        Raises HardwareError.
        """
        auth = getattr(self._root, "_auth", None)
        path = getattr(auth, "get_session_resource_id", lambda: None)()
        root, self._root = self._root, None
        if root is not None and path:
            self.command.begin()
            with errors_of(self.access):
                root._conn._op("DELETE", path, timeout=max(seconds, 0.1), allow_reauth=False)

    def document(self, path: str) -> Mapping[str, Any]:
        """
        Read a document, a JSON object.

        Raises HardwareError: it is missing or malformed.
        """
        with errors_of(self.access):
            return self._read(path)

    def find(self, path: str) -> Mapping[str, Any] | None:
        """
        Read a document; None if the BMC lacks it, or serves it malformed.

        Raises Exception, for `errors_of`: the BMC failed, did not answer or refused the login.
        """
        document = None
        with self.skip_unreadable(path):
            document = self._read(path)
        return document  # noqa: RET504 - None if it was skipped

    def _read(self, path: str) -> Mapping[str, Any]:
        document: Mapping[str, Any] = self.open()._conn.get(path).json()
        return document

    def skip_unreadable(self, path: str) -> AbstractContextManager[None]:
        """Ignore errors inside if the BMC lacks `path`, or serves it malformed; see `errors`."""
        return skip_unreadable(self.access, path)

    def system(self, *, fresh: bool) -> "System":
        """Return the system resource; `fresh`: read it again. Use inside `client.turn` only."""
        root = self.open()
        if self._system is None:
            self._system = root.get_system(self.path)
            self.path = self._system.path
        elif fresh:
            self._system.invalidate()
        # not forced: sushy then reads its parts again at their next use, and not now
        self._system.refresh(force=False)
        return self._system
