"""
A Redfish session with a BMC: root and system resources of sushy, kept between commands.
"""

from contextlib import AbstractContextManager
from typing import Any

from drivers.redfish.access import Access
from drivers.redfish.errors import errors_of, skip_unreadable
from drivers.tls import file
from drivers.web import answers


class Session:
    """Session with a BMC; logs in at the first use."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.path = access.system
        self.budget = answers.Budget()  # of the current command
        self._root: Any = None
        self._system: Any = None

    @property
    def token(self) -> str | None:
        """The session's token; None before the login, and with Basic authentication."""
        auth = getattr(self._root, "_auth", None)
        key = getattr(auth, "get_session_key", lambda: None)()
        return str(key) if key else None

    def open(self) -> Any:
        """Log in, unless that is done; return the root resource."""
        if self._root is None:
            with errors_of(self.access):
                self._root = _login(self.access, self.budget)
        return self._root

    def close(self) -> None:
        """Drop the session; the next command logs in again."""
        self._root = self._system = None

    def skip_unreadable(self, path: str) -> AbstractContextManager[None]:
        """Ignore errors inside if the BMC lacks `path`, or serves it malformed; see `errors`."""
        return skip_unreadable(self.access, path)

    def system(self, *, fresh: bool) -> Any:
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


def _login(wanted: Access, budget: answers.Budget) -> Any:
    import sushy  # here: takes half a second, and only conductors need it
    from sushy import auth
    from sushy.connector import Connector

    class NoLogin(auth.AuthBase):
        def _do_authenticate(self) -> None:
            """Do nothing: the BMC needs no login."""

        def can_refresh_session(self) -> bool:
            return False

    login: Any
    if wanted.username is None:
        login = NoLogin()
    elif wanted.auth == "basic":
        login = auth.BasicAuth(wanted.username, wanted.password)
    else:
        kind = auth.SessionAuth if wanted.auth == "session" else auth.SessionOrBasicAuth
        login = kind(wanted.username, wanted.password)
        # sushy logs out in its destructor, also from a BMC that does not answer. BMCs end idle
        # sessions themselves.
        login.close = lambda: None
    connector = Connector(
        wanted.address,
        verify=file(wanted.verify) if isinstance(wanted.verify, str) else wanted.verify,
        connect_timeout=wanted.connect_timeout,
        default_request_timeout=wanted.read_timeout,
        # one attempt: sushy would repeat commands whose answer was lost
        server_side_retries=1,
        server_side_retries_delay=1,
    )

    def adapter() -> answers.MachineAdapter:
        return answers.MachineAdapter(
            wanted.address, f"BMC {wanted.address}", wanted.reach, budget=budget
        )

    answers.bind(connector._session, adapter())
    return sushy.Sushy(
        wanted.address,
        auth=login,
        connector=connector,
        # of message registries at a URL that the BMC names: refuses all other servers
        public_connector=answers.session(adapter()),
    )
