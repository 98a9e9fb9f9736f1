"""
A session with a BMC in Redfish: sushy's root and system, kept between commands.
"""

from contextlib import AbstractContextManager
from typing import Any

from drivers.redfish.access import Access
from drivers.redfish.errors import errors_of, gap
from drivers.tls import file


class Session:
    """What is kept of one BMC: sushy's root and system, opened when first needed."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.path = access.system
        self._root: Any = None
        self._system: Any = None

    @property
    def token(self) -> str | None:
        """The token of the kept session, if there is one."""
        auth = getattr(self._root, "_auth", None)
        key = getattr(auth, "get_session_key", lambda: None)()
        return str(key) if key else None

    def open(self) -> Any:
        """sushy's root of this BMC, logged in."""
        if self._root is None:
            with errors_of(self.access):
                self._root = _login(self.access)
        return self._root

    def close(self) -> None:
        """Forget the session: the next command logs in again."""
        self._root = self._system = None

    def gap(self, path: str) -> AbstractContextManager[None]:
        """Go on after this block when the BMC lacks `path` or serves it malformed; see `errors`."""
        return gap(self.access, path)

    def system(self, *, fresh: bool) -> Any:
        """sushy's system; `fresh` reads it again. Use inside `turn` only."""
        root = self.open()
        if self._system is None:
            self._system = root.get_system(self.path)
            self.path = self._system.path
        elif fresh:
            self._system.invalidate()
        # not forced: what was read of its parts is read again when it is next asked for
        self._system.refresh(force=False)
        return self._system


def _login(wanted: Access) -> Any:
    import sushy  # takes half a second, and only conductors need it
    from sushy import auth

    class NoLogin(auth.AuthBase):
        def _do_authenticate(self) -> None:
            """This BMC asks nobody who they are."""

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
        # sushy logs out when it is collected, even from a BMC that does not answer; BMCs end
        # idle sessions themselves
        login.close = lambda: None
    return sushy.Sushy(
        wanted.address,
        auth=login,
        verify=file(wanted.verify) if isinstance(wanted.verify, str) else wanted.verify,
        connect_timeout=wanted.connect_timeout,
        read_timeout=wanted.read_timeout,
        # sushy repeats orders whose answer was lost, and sleeps meanwhile: one try each
        server_side_retries=1,
        server_side_retries_delay=1,
    )
