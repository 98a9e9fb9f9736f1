"""
New passwords of BMCs: their length and characters, by vendor and by the BMC's own limits.
"""

import secrets
import string
from collections.abc import Mapping
from dataclasses import dataclass, replace

from drivers.core.errors import NotSupported

#: Least length of a password that is made: 12 characters are more than 70 bits.
SHORTEST = 12
#: Most characters of a password that is also used over IPMI 2.0.
IPMI_LONGEST = 16


@dataclass(frozen=True, slots=True)
class Policy:
    """Length and characters of new passwords."""

    length: int = 16
    #: beside letters and digits; none that a shell, a URL or a form of a BMC could misread
    marks: str = "-_."

    def within(self, shortest: object, longest: object) -> "Policy":
        """
        Return the policy within a BMC's limits; values that are no numbers are no limits.

        Raises NotSupported: the BMC's limits leave no room.
        """
        length = self.length
        if _is_limit(shortest):
            length = max(length, int(shortest))  # type: ignore[call-overload]
        if _is_limit(longest):
            length = min(length, int(longest))  # type: ignore[call-overload]
        if length < SHORTEST or (_is_limit(shortest) and length < int(shortest)):  # type: ignore[call-overload]
            raise NotSupported(
                f"the BMC takes passwords of {shortest} to {longest} characters, and a new one has"
                f" at least {SHORTEST}"
            )
        return replace(self, length=length)

    def password(self) -> str:
        """
        Return a new password.

        It begins with a letter, has a letter of each case, a digit and a mark, and no character
        twice in a row: common rules of complexity of BMCs.
        """
        kinds = (string.ascii_uppercase, string.ascii_lowercase, string.digits, self.marks)
        alphabet = "".join(kinds)
        while True:
            password = "".join(secrets.choice(alphabet) for _ in range(self.length))
            repeats = any(one == next_one for one, next_one in zip(password, password[1:]))  # noqa: B905, RUF007
            complete = all(set(password) & set(kind) for kind in kinds)
            if complete and not repeats and password[0] in string.ascii_letters:
                return password


#: Word in the name of a vendor, in lower case -> its policy, if it differs from the usual one.
POLICIES: Mapping[str, Policy] = {"huawei": Policy(marks="-_"), "fujitsu": Policy(marks="-_")}


def policy_of(vendor: str | None) -> Policy:
    """Return the policy for a vendor's BMCs."""
    name = (vendor or "").lower()
    return next((policy for word, policy in POLICIES.items() if word in name), Policy())


def _is_limit(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
