"""
Check that a boot medium can be fetched, before a machine is ordered to boot from it.

A permanent error of the server fails the step. The conductor may be on another network than the BMC
or the machine, so an unreachable server is only a warning, which is reported if the agent does not
start in time.
"""

from urllib.parse import urlsplit

import requests

from drivers.core.errors import BadImage
from drivers.core.target import Target
from drivers.images import image_server
from drivers.tls import bundle

#: Key of driver_internal_info under which the service keeps the last warning.
WARNING = "boot_warning"
#: Status codes that every client would receive; other errors may be temporary.
PERMANENT = (401, 403, 404, 410)
#: Seconds to wait for a server at most.
TIMEOUT = 5.0


def check(target: Target, url: str) -> None:
    """
    Request the medium at a http or https URL; other schemes are not checked.

    Raises BadImage: the server does not have the medium, or refuses it.
    """
    warning = _warning(target, url) if urlsplit(url).scheme in ("http", "https") else None
    if warning or target.driver_internal_info.get(WARNING):
        target.report(boot_warning=warning)


def _warning(target: Target, url: str) -> str | None:
    """Return a warning about the medium, or None. Raises BadImage."""
    options = target.options["DEFAULT"]
    timeout = min(TIMEOUT, float(options["webserver_connection_timeout"]))
    medium = f"the boot medium {image_server.redacted(url)}"
    try:
        with bundle(options["webserver_verify_ca"]) as verify, requests.Session() as session:
            session.verify = verify
            answer = session.head(url, timeout=timeout, allow_redirects=True)
            if not answer.ok:  # some servers support only GET, or sign URLs only for GET
                first = {"Range": "bytes=0-0"}
                answer = session.get(url, timeout=timeout, headers=first, stream=True)
                answer.close()
    except (requests.RequestException, OSError, ValueError) as error:
        cause = image_server.cause(error)
        return f"{medium} could not be reached from the conductor: {cause}"
    reply = f"the server answered {answer.status_code} {answer.reason}"
    if answer.status_code in PERMANENT:
        raise BadImage(f"{medium} cannot be fetched: {reply}")
    return None if answer.ok else f"{medium} could not be checked: {reply}"
