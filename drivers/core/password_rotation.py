"""
Rotation of a BMC's password: a new one is recorded, ordered, verified by a login, then used.

The node has a working password at each moment, whichever process dies. Both candidates are
recorded in `driver_internal_info` before the new one is sent, and `driver_info` changes only after
a login with the new one. While it is unknown which of both is valid, no other command logs in
(`require_settled`), since wrong logins lock users out.

After a failed rotation whose old password was verified, the new one stays recorded: an order may
take effect late. The next rotation finds it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol
from urllib.parse import urlsplit

from drivers.core.errors import (
    AccountLocked,
    Busy,
    FailureCode,
    HardwareError,
    InvalidDriverInfo,
    LoginRefused,
    NotSupported,
    PasswordUnsettled,
    Refused,
    Unconfirmed,
    Unexpected,
    Unreachable,
)
from drivers.core.passwords import IPMI_LONGEST, Policy
from drivers.core.references import is_reference
from drivers.core.steps import Done, Failed, Outcome, Wait
from drivers.core.target import Target

#: Key of driver_internal_info; its value is sealed and masked, as its name has "password".
KEY = "password_rotation"
#: Seconds since the first wait until the step fails.
LONGEST = 3600.0
#: Seconds between two looks at a BMC: that does not answer; that has not applied an order.
SILENT, UNAPPLIED = 15.0, 5.0
#: Looks at a BMC that still accepts the old password.
LOOKS = 4
#: Orders of one rotation.
WRITES = 3
#: Seconds before the further rounds of logins, after both passwords were refused: BMCs lock users
#: out for five to ten minutes, and answer the right password as a wrong one meanwhile.
ROUNDS = (120.0, 660.0)
#: Seconds of the first wait for the end of a lock-out, doubled with each.
LOCKED = 300.0

#: Error of an order -> what is known of it; the first match applies.
_ANSWERS: Mapping[type[HardwareError], str] = {
    Unconfirmed: "lost",
    Unexpected: "lost",
    Unreachable: "not carried out",
    Busy: "not carried out",
    LoginRefused: "unknown",  # the new password may be valid already
    Refused: "refused",
    NotSupported: "refused",
}
#: Parts of the progress that end with the next order.
_OF_ONE_ORDER = ("last", "locks", "looks", "rounds")
#: Fields of a login in driver_info: address, user, password.
_LOGINS = (
    ("redfish_address", "redfish_username", "redfish_password"),
    ("ipmi_address", "ipmi_username", "ipmi_password"),
)


class Account(Protocol):
    """The account at a BMC with which a node logs in."""

    field: str  # of driver_info, its password
    bmc: str  # name of the BMC in errors
    policy: Policy

    def prepare(self) -> Policy:
        """
        Check that the password can be changed; nothing is changed. Return the BMC's policy.

        Raises HardwareError.
        """

    def write(self, password: str) -> None:
        """
        Order a new password once, logged in with the old one.

        Raises Unconfirmed: it may have been carried out.
        Raises Busy, Unreachable: it was not carried out. Raises Refused.
        """

    def log_in(self, password: str) -> None:
        """
        Log in once, by a session of its own.

        Raises LoginRefused, AccountLocked. Raises HardwareError: no verdict.
        """


@dataclass(frozen=True, slots=True)
class Candidates:
    """The passwords of a BMC whose password was changed, or was to be."""

    old: str
    new: str
    unsettled: bool  # whether it is unknown which of both is valid

    @classmethod
    def of(cls, target: Target, field: str) -> "Candidates | None":
        """
        Return those of a node; None: there are none, or `driver_info` has another password since.

        Raises InvalidDriverInfo: they cannot be decrypted.
        """
        stored = target.driver_internal_info.get(KEY)
        if stored is None:
            return None
        if not isinstance(stored, Mapping):
            raise InvalidDriverInfo(f"driver_internal_info/{KEY}: it cannot be decrypted")
        candidates = cls(stored["old"], stored["new"], bool(stored["unsettled"]))
        return candidates if candidates.old == _text(target.driver_info.get(field)) else None

    def report(self, target: Target) -> None:
        """Let the worker record them with the outcome of the step."""
        stored = {"old": self.old, "new": self.new, "unsettled": self.unsettled}
        target.report(driver_internal_info={KEY: stored})


def require_settled(target: Target, field: str) -> None:
    """
    Check that the password in driver_info may be used.

    Raises PasswordUnsettled.
    Raises InvalidDriverInfo: it is a reference to a vault, and no password.
    """
    if is_reference(target.driver_info.get(field)):
        raise InvalidDriverInfo(
            f"driver_info/{field} refers to a secret in a vault, which was not read: see [vault]"
        )
    candidates = Candidates.of(target, field)
    if candidates is not None and candidates.unsettled:
        raise PasswordUnsettled(
            f"driver_info/{field} is being changed, and which of two passwords the BMC has is not"
            " verified: no command is sent until a management.rotate_bmc_password step has ended"
            " that"
        )


def require_own_account(
    target: Target, address_field: str, place: Callable[[Mapping[str, Any]], str]
) -> None:
    """
    Check that no other node logs in with the account: it would lose its password.

    place: returns host and port of a BMC from driver_info; raises InvalidDriverInfo.

    Raises NotSupported: names the nodes.
    """
    user_field = next(user for address, user, _ in _LOGINS if address == address_field)
    mine = place(target.driver_info)
    user = _text(target.driver_info.get(user_field))
    host = str(urlsplit(f"//{mine.rpartition('://')[2]}").hostname)
    sharers = []
    for name, info in target.nodes_with(host):
        try:
            is_sharer = place(info) == mine and _text(info.get(user_field)) == user
        except InvalidDriverInfo:
            is_sharer = False
        if is_sharer:
            sharers.append(name)
    if sharers:
        names = ", ".join(sorted(sharers)[:5]) + (" and others" if len(sharers) > 5 else "")
        raise NotSupported(
            f"driver_info/{user_field}: node {names} has the same user of the same BMC, and would"
            " lose its password; give each node a user of its own"
        )


def rotate(target: Target, account: Account) -> Outcome:
    """Run the step; see the module. Each outcome is recorded before the next part begins."""
    if not target.progress:
        candidates = Candidates.of(target, account.field)
        if candidates is None:
            return _begin(target, account)
        return _settle(target, account, candidates, {"stage": "settle", "answer": "earlier"})
    candidates = Candidates.of(target, account.field)
    if candidates is None:
        return Failed(
            f"driver_info/{account.field} was set by a caller during the rotation, and stays as it"
            " is; the BMC may have the new password that was ordered, which is forgotten"
        )
    progress = dict(target.progress)
    if progress["stage"] == "order":
        if target.crashes > progress["crashes"]:  # it may have been sent
            progress |= {"answer": "unknown", "writes": progress["writes"] + 1}
        else:
            progress = _order(target, account, candidates, progress)
        progress["stage"] = "settle"
    return _settle(target, account, candidates, progress)


def _begin(target: Target, account: Account) -> Outcome:
    """Record a new password; nothing was sent yet."""
    policy = account.prepare()
    info = target.driver_info
    old = _text(info.get(account.field))
    if len(_fields(info, account.field)) > 1:
        policy = policy.within(None, IPMI_LONGEST)
    Candidates(old, policy.password(), unsettled=True).report(target)
    return _wait(target, {"stage": "order", "writes": 0}, 0, None)


def _order(
    target: Target, account: Account, candidates: Candidates, progress: dict[str, Any]
) -> dict[str, Any]:
    """Order the new password; return the progress with the kind of the answer."""
    progress = {**progress, "writes": progress["writes"] + 1}
    try:
        target.before_order()
        account.write(candidates.new)
    except tuple(_ANSWERS) as error:
        answer = next(answer for kind, answer in _ANSWERS.items() if isinstance(error, kind))
        message = _hidden(str(error), candidates)
        return {**progress, "answer": answer, "said": message, "code": error.code}
    return {**progress, "answer": "accepted", "said": ""}


def _settle(
    target: Target, account: Account, candidates: Candidates, progress: dict[str, Any]
) -> Outcome:
    """Find the valid password by at most two logins, and end the rotation, or wait."""
    is_new_first = _is_new_first(candidates, progress)
    new_and_old = (candidates.new, candidates.old)
    for password in new_and_old if is_new_first else reversed(new_and_old):
        progress = {**progress, "last": "new" if password == candidates.new else "old"}
        try:
            target.before_order()
            account.log_in(password)
        except LoginRefused:
            continue
        except AccountLocked as error:
            locks = progress.get("locks", 0)
            pause = max(error.retry_after, LOCKED * 2.0**locks)
            return _wait(
                target, {**progress, "locks": locks + 1}, pause, _hidden(str(error), candidates)
            )
        except (Unreachable, Refused, Unexpected) as error:
            return _wait(target, progress, SILENT, _hidden(str(error), candidates))
        if password == candidates.new:
            return _adopt(target, account, candidates)
        return _kept(target, account, candidates, progress)
    rounds = progress.get("rounds", 0)
    words = (
        f"{account.bmc} accepts neither the old nor the new password of driver_info/{account.field}"
    )
    if rounds < len(ROUNDS):
        return _wait(
            target, {**progress, "rounds": rounds + 1}, ROUNDS[rounds], f"{words}: locked out?"
        )
    replace(candidates, unsettled=True).report(target)
    return Failed(
        f"{words}; both stay recorded, and no command is sent to it",
        FailureCode.PASSWORD_UNSETTLED,
    )


def _is_new_first(candidates: Candidates, progress: Mapping[str, Any]) -> bool:
    """
    Whether a round of logins begins with the new password.

    A round after one without a verdict begins with the password that was tried last: to begin with
    a refused one again costs a wrong login each time, and may lock the user out each time. After a
    lock-out the rounds of the same order begin with the old one, which was valid before it.
    """
    if "last" in progress:
        return bool(progress["last"] == "new")
    was_locked = bool(progress.get("locks") or progress.get("rounds"))
    is_unchanged = progress["answer"] in ("refused", "not carried out")
    return candidates.unsettled and not (was_locked or is_unchanged)


def _adopt(target: Target, account: Account, candidates: Candidates) -> Outcome:
    """Report the new password, which a login has verified, and drop the old one."""
    fields = _fields(target.driver_info, account.field)
    target.report(login_passwords=dict.fromkeys(fields, candidates.new))
    target.report(driver_internal_info={KEY: None})
    return Done({"rotated": list(fields)})


def _kept(
    target: Target, account: Account, candidates: Candidates, progress: dict[str, Any]
) -> Outcome:
    """Return what follows after a login with the old password."""
    progress = {name: value for name, value in progress.items() if name != "last"}
    reordered = {name: value for name, value in progress.items() if name not in _OF_ONE_ORDER}
    reordered["stage"] = "order"
    answer, writes = progress["answer"], progress.get("writes", 0)
    if answer == "earlier":
        return _begin(target, account)
    if answer in ("unknown", "not carried out") and writes < WRITES:
        pause = 0.0 if answer == "unknown" else SILENT
        return _wait(target, reordered, pause, progress.get("said"))
    looks = progress.get("looks", 0) + 1
    if answer in ("accepted", "lost") and looks < LOOKS:
        return _wait(target, {**progress, "looks": looks}, UNAPPLIED * looks, progress.get("said"))
    if answer == "lost" and writes < WRITES:  # to set the same password again does no harm
        return _wait(target, reordered, SILENT, progress.get("said"))
    replace(candidates, unsettled=False).report(target)
    verdict = "the old password was verified, and stays in use"
    if answer == "accepted":
        return Failed(
            f"{account.bmc} accepted a new password and does not apply it; {verdict}",
            FailureCode.UNEXPECTED_ANSWER,
        )
    reason = progress.get("said") or "the conductor died during each order"
    return Failed(f"{reason}; {verdict}", progress.get("code") or FailureCode.UNCONFIRMED)


def _fields(info: Mapping[str, object], field: str) -> tuple[str, ...]:
    """Return the passwords of driver_info that are one: of the same user at the same host."""
    mine = next(login for login in _LOGINS if login[2] == field)
    same = [
        password
        for address, user, password in _LOGINS
        if (_host(info.get(address)), _text(info.get(user)), _text(info.get(password)))
        == (_host(info.get(mine[0])), _text(info.get(mine[1])), _text(info.get(field)))
    ]
    return (field, *(other for other in same if other != field))


def _host(address: object) -> str | None:
    """Return the host of an address or URL, in lower case."""
    text = _text(address).rpartition("://")[2]
    try:
        return urlsplit(f"//{text}").hostname or text
    except ValueError:
        return text


def _wait(target: Target, progress: dict[str, object], pause: float, reason: str | None) -> Wait:
    progress = {**progress, "crashes": target.crashes}
    return Wait(progress, poll_after=pause, timeout=LONGEST, reason=reason or None)


def _hidden(words: str, candidates: Candidates) -> str:
    """Mask both passwords in the words of a BMC, which may quote them."""
    for password in (candidates.new, candidates.old):
        words = words.replace(password, "******") if len(password) > 3 else words
    return words


def _text(value: object) -> str:
    return "" if value is None else str(value)
