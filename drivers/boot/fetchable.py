"""
Whether a boot medium can be fetched: asked before a machine is told to boot from it.

What a server says for certain fails the step. The conductor may be in another network than the BMC
or the machine, so a server that it cannot reach is only a warning, told when the agent is late.
"""

from urllib.parse import urlsplit

import requests

from drivers.core.errors import BadImage
from drivers.core.target import Target
from drivers.images import image_server
from drivers.tls import bundle

#: Key of driver_internal_info under which the service keeps the last warning.
WARNING = "boot_warning"
#: Answers that no other client would change; what else is wrong may pass.
CERTAIN = (401, 403, 404, 410)
#: Seconds to wait for a server, at most.
PATIENCE = 5.0


def check(target: Target, url: str) -> None:
    """
    Ask for the medium at a http or https URL; others are left to those who fetch them.

    Raises BadImage when the server does not have it, or does not give it.
    """
    warning = _asked(target, url) if urlsplit(url).scheme in ("http", "https") else None
    if warning or target.driver_internal_info.get(WARNING):
        target.report(boot_warning=warning)


def _asked(target: Target, url: str) -> str | None:
    """A doubt as a sentence, or None. Raises BadImage."""
    options = target.options["DEFAULT"]
    patience = min(PATIENCE, float(options["webserver_connection_timeout"]))
    medium = f"the boot medium {image_server.shown(url)}"
    try:
        with bundle(options["webserver_verify_ca"]) as verify, requests.Session() as session:
            session.verify = verify
            answer = session.head(url, timeout=patience, allow_redirects=True)
            if not answer.ok:  # some servers know GET alone, or sign URLs for it
                first = {"Range": "bytes=0-0"}
                answer = session.get(url, timeout=patience, headers=first, stream=True)
                answer.close()
    except (requests.RequestException, OSError, ValueError) as error:
        cause = image_server.cause(error)
        return f"{medium} could not be reached from the conductor: {cause}"
    said = f"the server answered {answer.status_code} {answer.reason}"
    if answer.status_code in CERTAIN:
        raise BadImage(f"{medium} cannot be fetched: {said}")
    return None if answer.ok else f"{medium} could not be checked: {said}"
