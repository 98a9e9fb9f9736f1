"""
Passwords of local users: argon2id hashes, and the rules for new ones.

The parameters are those that OWASP recommends; a hash with others is still accepted.
"""

from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from app.errors import Invalid

#: Characters of a password.
SHORTEST, LONGEST = 8, 1024

_HASHER = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


def hashed(password: str) -> str:
    """
    Return the hash of a new password, in the PHC format.

    Raises Invalid: it is too short or too long, or has control characters.
    """
    if not SHORTEST <= len(password) <= LONGEST or not password.isprintable():
        raise Invalid(f"password: expected {SHORTEST} to {LONGEST} printable characters")
    return _HASHER.hash(password)


def matches(password_hash: str, password: str) -> bool:
    """Whether a password is the one of a hash; it takes tens of milliseconds."""
    try:
        return _HASHER.verify(password_hash, password)
    except (VerificationError, InvalidHashError):
        return False


@cache
def decoy() -> str:
    """Return a hash that takes as long to check as the hash of a user."""
    return _HASHER.hash("no user has this password")
