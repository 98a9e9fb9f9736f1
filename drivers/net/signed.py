"""
Signed requests to receivers of webhooks, and the answers that are read of them.

The signature is an HMAC (SHA-256) of time and body, so that a receiver can refuse forged and
old requests. Deliveries of events are also signed as https://www.standardwebhooks.com specifies.
"""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence

import requests

from drivers.core.errors import HardwareError, Unconfirmed, Unreachable
from drivers.core.target import Options
from drivers.net import answers
from drivers.net.fetch import cause
from drivers.net.networks import of_urls
from drivers.net.tls import bundle
from drivers.net.urls import redacted

#: Header of the signature.
SIGNATURE = "Ingot-Signature"
#: Prefix of a secret that is base64, as Standard Webhooks writes keys; fewest and most bytes in it.
PREFIX, KEY_BYTES = "whsec_", (24, 64)
#: Bytes of the longest answer that is read.
LONGEST = 1 << 16


def signature(secrets: Sequence[str], seconds: int, body: bytes) -> str:
    """Return the value of the signature's header. seconds: time since 1970."""
    signed = b"%d." % seconds + body
    digests = [hmac.digest(secret.encode(), signed, hashlib.sha256).hex() for secret in secrets]
    return ",".join((f"t={seconds}", *(f"v1={digest}" for digest in digests)))


def standard_headers(secrets: Sequence[str], seconds: int, body: bytes) -> Mapping[str, str]:
    """
    Return the headers of Standard Webhooks.

    seconds: time since 1970. The id is that of the body: repeats of a delivery have the same one.
    """
    ident = f"msg_{hashlib.sha256(body).hexdigest()[:32]}"
    signed = b"%s.%d.%s" % (ident.encode(), seconds, body)
    digests = [hmac.digest(key(secret), signed, hashlib.sha256) for secret in secrets]
    return {
        "webhook-id": ident,
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(
            f"v1,{base64.b64encode(value).decode()}" for value in digests
        ),
    }


def key(secret: str) -> bytes:
    """Return the key of Standard Webhooks that a secret stands for."""
    try:
        return decoded(secret) if secret.startswith(PREFIX) else secret.encode()
    except ValueError:  # stored before such secrets were checked
        return secret.encode()


def decoded(secret: str) -> bytes:
    """Return the bytes of a secret with `PREFIX`. Raises ValueError: they are no key."""
    try:
        decoded_key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        decoded_key = b""
    if not KEY_BYTES[0] <= len(decoded_key) <= KEY_BYTES[1]:
        raise ValueError(
            f"after {PREFIX} must be base64 of {KEY_BYTES[0]} to {KEY_BYTES[1]} bytes, such as the"
            " output of `openssl rand -base64 32`"
        )
    return decoded_key


def exchange(
    options: Options,
    field: str,
    url: str,
    secret: str,
    timeout: float,
    *,
    body: bytes | None = None,
) -> tuple[int, bytes]:
    """
    GET a URL, or POST a JSON body to it; return status and body of the answer.

    Redirects are not followed. field: name of the URL setting, for errors. secret: key of the
    signature.
    timeout: seconds for the connection, and for each read.

    Raises InvalidDriverInfo: a setting refuses the address.
    Raises Unreachable: no answer. Raises Unconfirmed: none to a POST that was sent.
    Raises Unexpected: the answer is longer than `LONGEST`, or compressed.
    """
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "ingot",
        SIGNATURE: signature([secret], int(time.time()), body or b""),
    }
    name, reach = redacted(url), of_urls(options, field)
    adapter = answers.MachineAdapter(url, name, reach, LONGEST)
    try:
        with (
            bundle(options["DEFAULT"]["webserver_verify_ca"]) as verify,
            answers.session(adapter) as session,
        ):
            answer = session.request(
                "GET" if body is None else "POST", url, data=body, headers=headers,
                timeout=(timeout, timeout), verify=verify, allow_redirects=False,
            )  # fmt: skip
            return answer.status_code, answer.content
    except Unreachable as error:  # the deadline of the whole answer has passed
        words = str(error)
    except HardwareError:
        raise
    except (requests.RequestException, OSError, ValueError) as error:
        words = f"{name} did not answer: {cause(error)}"
    raise (Unreachable if body is None or not adapter.was_sent else Unconfirmed)(words)
