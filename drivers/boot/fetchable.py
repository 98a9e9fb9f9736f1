"""
Check that a boot medium can be fetched, before a machine is ordered to boot from it.

A permanent error of the server fails the step. The conductor may be on another network than the BMC
or the machine, so an unreachable server is only a warning, which is reported if the agent does not
start in time.
"""

from http import HTTPStatus
from urllib.parse import urlsplit

from drivers.core.errors import BadImage, HardwareError
from drivers.core.interface_kinds import Boot
from drivers.core.target import Target
from drivers.net import fetch, urls

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
    if warning or target.driver_internal_info.get(Boot.WARNING):
        target.report(boot_warning=warning)


def _warning(target: Target, url: str) -> str | None:
    """Return a warning about the medium, or None. Raises BadImage."""
    medium = f"the boot medium {urls.redacted(url)}"
    try:
        status, reason = _ask(target, url, "HEAD", {})
        if status >= HTTPStatus.BAD_REQUEST:  # some servers support GET alone, or sign URLs for it
            status, reason = _ask(target, url, "GET", {"Range": "bytes=0-0"})
    except HardwareError as error:
        return f"{medium} could not be checked by the conductor: {error}"
    reply = f"the server answered {status} {reason}"
    if status in PERMANENT:
        raise BadImage(f"{medium} cannot be fetched: {reply}")
    return None if status < HTTPStatus.BAD_REQUEST else f"{medium} could not be checked: {reply}"


def _ask(target: Target, url: str, method: str, headers: dict[str, str]) -> tuple[int, str]:
    """Return status code and reason of the server's answer. Raises HardwareError."""
    timeout = min(TIMEOUT, float(target.options["DEFAULT"]["webserver_connection_timeout"]))
    with fetch.answered(target, url, method=method, headers=headers, timeout=timeout) as answer:
        return answer.status_code, str(answer.reason)
