"""
Signed requests to receivers of webhooks, and the answers that are read of them.

The signature is an HMAC (SHA-256) of time and body, so that a receiver can refuse forged and
old requests.
"""

import hashlib
import hmac
import time
from collections.abc import Sequence

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
#: Bytes of the longest answer that is read.
LONGEST = 1 << 16


def signature(secrets: Sequence[str], seconds: int, body: bytes) -> str:
    """Return the value of the signature's header. seconds: time since 1970."""
    signed = b"%d." % seconds + body
    digests = [hmac.digest(secret.encode(), signed, hashlib.sha256).hex() for secret in secrets]
    return ",".join((f"t={seconds}", *(f"v1={digest}" for digest in digests)))


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
    raise (Unreachable if body is None or not adapter.sent else Unconfirmed)(words)
