"""
Redfish: the password of a node's BMC user, in the account service of DSP0266.

The step is a part of the management interface; `drivers.core.password_rotation` has its course.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from drivers.core.bmc import Bmcs
from drivers.core.errors import (
    AccountLocked,
    Busy,
    HardwareError,
    InvalidDriverInfo,
    LoginRefused,
    NotSupported,
    Refused,
    Unconfirmed,
    Unexpected,
)
from drivers.core.password_rotation import require_own_account, rotate
from drivers.core.passwords import Policy, policy_of
from drivers.core.steps import Outcome, Resume, step
from drivers.core.target import Target
from drivers.redfish.transport import client
from drivers.redfish.transport.access import PASSWORD, Access, access, place
from drivers.redfish.transport.client import Connection, Reply, reply
from drivers.redfish.transport.conversions import entry, link_path, link_paths, text
from drivers.redfish.transport.errors import errors_of, is_busy
from drivers.redfish.transport.messages import messages, words

#: Words of a BMC that refuses a login because of earlier ones. No registry has a message for it.
_LOCKED = re.compile(r"(?i)lock(ed)?[ -]?out|is b?locked|blocked|too many|account ?locked")
#: Message of a login that may only change the password (DSP0266, 13.5.2).
_TO_BE_CHANGED = "PasswordChangeRequired"
#: Statuses of BMCs that have no sessions: the login is then tried with Basic authentication.
_NO_SESSIONS = frozenset({404, 405, 501})


class BmcPassword:
    """The step that changes the BMC's password; a part of RedfishManagement."""

    bmcs: Bmcs

    @step(clean=0, service=0, needs_ramdisk=False, resume=Resume.PROBE)
    def rotate_bmc_password(self, target: Target) -> Outcome:
        """Change the password of the node's BMC user to a new one, verified by a login."""
        return rotate(target, RedfishAccount(target, self.bmcs))


class RedfishAccount:
    """The account of the node's user; see `password_rotation.Account`."""

    field = PASSWORD

    def __init__(self, target: Target, bmcs: Bmcs) -> None:
        self.target, self.bmcs, self.access = target, bmcs, access(target)
        self.bmc = f"BMC {self.access.address}"
        self.policy = policy_of(text(target.properties.get("vendor")))
        if not (self.access.username and self.access.password):
            raise InvalidDriverInfo(
                "driver_info/redfish_username and redfish_password are required to change the"
                " password"
            )

    def prepare(self) -> Policy:
        require_own_account(self.target, "redfish_address", place)
        with self._connection() as bmc:
            service, account = self._found(bmc)
        if entry(account, "Enabled") is False:
            raise Refused(f"{self.bmc}: the account of redfish_username is disabled")
        lengths = entry(service, "MinPasswordLength"), entry(service, "MaxPasswordLength")
        return self.policy.within(*lengths)

    def write(self, password: str) -> None:
        with self._connection() as bmc:
            _, account = self._found(bmc)
            path = str(entry(account, "@odata.id"))
            etag = text(entry(account, "@odata.etag"))
            answer = bmc.order("PATCH", path, {"Password": password}, etag, log_in_again=False)
        if answer.status < 400:
            return
        bmc_messages = messages(answer.document)
        message = f"{self.bmc} refused the new password: {answer.status}: {words(bmc_messages)}"
        if is_busy(answer.status, bmc_messages):
            raise Busy(message)
        if answer.status >= 500 and answer.status not in (501, 505):
            raise Unconfirmed(message)
        raise Refused(message)

    def log_in(self, password: str) -> None:
        with self.bmcs.turn(self.access.key):
            if self.access.auth != "basic":
                answer = self._session(password)
                if answer.status not in _NO_SESSIONS:
                    self._judge(answer)
                    return
            login = replace(self.access, password=password, auth="basic")
            with self._fresh(login) as bmc:
                path = self.access.system or f"{self.access.root}Systems"
                answer = reply(bmc.answer("get", path))
            self._judge(answer)

    def _session(self, password: str) -> Reply:
        """Create a session; end it at once, as BMCs have few."""
        with self._fresh(replace(self.access, username=None, password=None)) as bmc:
            root = bmc.open().json
            path = link_path(root, "Links", "Sessions")
            path = path or f"{self.access.root}SessionService/Sessions"
            body = {"UserName": self.access.username, "Password": password}
            response = bmc.answer("post", path, data=body)
            token, session = (response.headers.get(name) for name in ("X-Auth-Token", "Location"))
            if response.status_code < 300 and token and session:
                with suppress(HardwareError):
                    bmc.answer("delete", session, headers={"X-Auth-Token": token})
        return reply(response)

    def _judge(self, answer: Reply) -> None:
        """
        Return if a login was accepted.

        Raises LoginRefused, AccountLocked. Raises Refused, Busy, Unexpected: no verdict.
        """
        status, bmc_messages = answer.status, messages(answer.document)
        if status < 300 or any(message.name == _TO_BE_CHANGED for message in bmc_messages):
            return
        message = f"{self.bmc} refused a login: {status}: {words(bmc_messages)}"
        if status in (403, 423, 429) or _LOCKED.search(words(bmc_messages)):
            raise AccountLocked(message, answer.retry_after)
        if status == 401:
            raise LoginRefused(message)
        if is_busy(status, bmc_messages):
            raise Busy(message)
        raise (Refused if 400 <= status < 500 else Unexpected)(message)

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """Hold the BMC's turn, with the kept connection of the old password."""
        with self.bmcs.turn(self.access.key) as bmc:
            session = client.connection(bmc, self.access)
            with session.command.judged(), errors_of(self.access):
                yield session

    @contextmanager
    def _fresh(self, login: Access) -> Iterator[Connection]:
        """Yield a new connection that is not kept; the caller holds the BMC's turn."""
        connection = Connection(login)
        connection.command.begin()
        with errors_of(login):
            yield connection

    def _found(self, bmc: Connection) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """
        Return the documents of the account service, and of the user's account.

        Raises NotSupported: there is none.
        """
        path = link_path(bmc.open().json, "AccountService")
        if path is None:
            raise NotSupported(f"{self.bmc} has no AccountService: change the password there")
        service = bmc.document(path)
        accounts = link_path(service, "Accounts")
        for path in link_paths(bmc.document(accounts), "Members") if accounts else ():
            account = bmc.find(path)
            if account is not None and entry(account, "UserName") == self.access.username:
                return service, {"@odata.id": path, **account}
        raise NotSupported(
            f"{self.bmc} lists no account of driver_info/redfish_username in its AccountService;"
            " a user of a directory has its password there"
        )
