"""
Signatures of sanitation reports: the signed form, and the verification of a report in a file.

The signed form is JSON with sorted keys and no white space, in UTF-8: the canonical form of
RFC 8785, as a report has no fractions and no keys beyond ASCII. The verification needs neither the
database nor the service, only the public key.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

import orjson

Document = Mapping[str, Any]

ALGORITHM = "Ed25519"
_KEY_SIZE = 32


class NotProven(Exception):
    """A report is not what the holder of the key has signed; the message is one sentence."""


def canonical(report: Document) -> bytes:
    """Return the signed form of a report."""
    return orjson.dumps(report, option=orjson.OPT_SORT_KEYS)


def signature_document(signature: str | None, public_key: str | None) -> Document | None:
    """Return the signature of a report as the API shows it; None without one."""
    if signature is None:
        return None
    return {"algorithm": ALGORITHM, "public_key": public_key, "value": signature}


def read(text: bytes) -> Document:
    """
    Read a signed report: {"report", "signature", ...}.

    Raises NotProven: it is none, or a key occurs twice, of which readers see different ones.
    """

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        document = dict(pairs)
        if len(document) != len(pairs):
            raise NotProven("a key occurs twice in one object of the file")
        return document

    try:
        document = json.loads(text, object_pairs_hook=members)
    except (ValueError, RecursionError):
        raise NotProven("the file is no JSON document") from None
    if not isinstance(document, dict) or not isinstance(document.get("report"), dict):
        raise NotProven("the file has no sanitation report: expected an object with `report`")
    return document


def verify(document: Document, public_key: bytes) -> Document:
    """
    Verify a signed report, and return the report.

    public_key: 32 bytes, from a source other than the document.

    Raises NotProven: it has no signature, was changed, or was signed with another key.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    signature = document.get("signature")
    if signature is None:
        raise NotProven("the report is not signed: the service had no master key")
    value = signature.get("value") if isinstance(signature, dict) else None
    if not isinstance(value, str) or signature.get("algorithm") != ALGORITHM:
        raise NotProven(f"signature: expected algorithm {ALGORITHM} and value")
    report: Document = document["report"]
    try:
        key = Ed25519PublicKey.from_public_bytes(public_key)
        key.verify(base64.b64decode(value, validate=True), canonical(report))
    except (InvalidSignature, ValueError, TypeError):
        if signature.get("public_key") != base64.b64encode(public_key).decode():
            raise NotProven("the report was signed with another key") from None
        raise NotProven("the report or its signature was changed") from None
    return report


def key_of(text: str) -> bytes:
    """
    Read a public key: PEM, or base64 of 32 bytes.

    Raises NotProven: it is neither.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        if "BEGIN" in text:
            key = load_pem_public_key(text.encode())
            if isinstance(key, Ed25519PublicKey):
                return key.public_bytes_raw()
        elif len(raw := base64.b64decode(text.strip(), validate=True)) == _KEY_SIZE:
            return raw
    except (ValueError, binascii.Error):
        pass
    raise NotProven(
        "the key is none of Ed25519: expected PEM, or base64 of 32 bytes, as"
        " `ingot sanitation key` prints it"
    )


def pem_of(public_key: bytes) -> str:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = Ed25519PublicKey.from_public_bytes(public_key)
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
