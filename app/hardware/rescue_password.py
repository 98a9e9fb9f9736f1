"""
Hash rescue passwords like `crypt(3)` with SHA-2, for `/etc/shadow` of the ramdisk.
"""

import hashlib
import secrets
import string
from collections.abc import Sequence

_ALPHABET = "./" + string.digits + string.ascii_uppercase + string.ascii_lowercase
_ROUNDS = 5000
_PREFIX = {"sha256": "$5$", "sha512": "$6$"}
_SALT_LENGTH = 16


def hashed(password: str, algorithm: str, salt: str | None = None) -> str:
    """Return the hash `$5$salt$...` (algorithm sha256) or `$6$salt$...` (sha512)."""
    salt = salt or "".join(secrets.choice(_ALPHABET) for _ in range(_SALT_LENGTH))
    digest = _digest(password.encode(), salt.encode(), algorithm)
    return f"{_PREFIX[algorithm]}{salt}${_text(digest, algorithm)}"


def _digest(key: bytes, salt: bytes, algorithm: str) -> bytes:
    """Ulrich Drepper's algorithm (2007); variables have the names A, B, P and S of its text."""

    def sha(data: bytes) -> bytes:
        return hashlib.new(algorithm, data).digest()

    b = sha(key + salt + key)
    a = key + salt + _repeat(b, len(key))
    bits = len(key)
    while bits:
        a += b if bits & 1 else key
        bits >>= 1
    digest = sha(a)
    p = _repeat(sha(key * len(key)), len(key))
    s = _repeat(sha(salt * (16 + digest[0])), len(salt))
    for number in range(_ROUNDS):
        data = p if number & 1 else digest
        if number % 3:
            data += s
        if number % 7:
            data += p
        data += digest if number & 1 else p
        digest = sha(data)
    return digest


def _repeat(data: bytes, length: int) -> bytes:
    return (data * (length // len(data) + 1))[:length]


def _text(digest: bytes, algorithm: str) -> str:
    """Encode a digest in crypt's base 64: groups of three bytes a third apart, low bits first."""
    third = len(digest) // 3
    order = [(i, i + third, i + 2 * third) for i in range(third)]
    if algorithm == "sha256":
        groups = [_rotated(group, i % 3, backwards=True) for i, group in enumerate(order)]
        tail: Sequence[int] = (31, 30)
    else:
        groups = [_rotated(group, i % 3, backwards=False) for i, group in enumerate(order)]
        tail = (63,)
    text = "".join(_base64([digest[index] for index in group], 4) for group in groups)
    return text + _base64([digest[index] for index in tail], len(tail) + 1)


def _rotated(group: tuple[int, ...], count: int, *, backwards: bool) -> tuple[int, ...]:
    count = -count % 3 if backwards else count
    return group[count:] + group[:count]


def _base64(values: Sequence[int], length: int) -> str:
    """Encode bytes, the most significant one first, as `length` characters, low bits first."""
    number = int.from_bytes(bytes(values), "big")
    return "".join(_ALPHABET[number >> 6 * position & 63] for position in range(length))
