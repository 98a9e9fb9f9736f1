"""
Where machines, their agents and their BMCs reach this service: addresses that end up in boot files.
"""

import socket

from drivers import urls
from drivers.core.errors import InvalidDriverInfo
from drivers.core.target import Options, Target

_EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, not listened on


def of_host(options: Options) -> str:
    """The address of this host as machines reach it."""
    named = options["DEFAULT"]["my_ip"]
    if named:
        return str(named)
    listened = str(options["api"]["host_ip"])
    return _outward() if listened in _EVERYWHERE else listened


def of_api(options: Options, *, outside: bool = False) -> str:
    """
    The URL of the API, without a slash at its end.

    outside: for machines that may be in another network: those booted by a BMC's own means.
    """
    api, outer = options["api"], options["deploy"]["external_callback_url"]
    if outside and outer:
        return str(outer).rstrip("/")
    if api["public_endpoint"]:
        return str(api["public_endpoint"]).rstrip("/")
    scheme = "https" if api["enable_ssl_api"] else "http"
    return f"{scheme}://{in_url(of_host(options))}:{api['port']}"


def of_files(target: Target, *, outside: bool = False) -> str:
    """
    The URL of what lies in `[deploy]http_root`, without a slash at its end.

    outside: for BMCs, which may be in another network. Raises InvalidDriverInfo.
    """
    deploy, url = target.options["deploy"], ""
    if outside:
        url = str(target.driver_info.get("external_http_url") or deploy["external_http_url"] or "")
    url = url or str(deploy["http_url"] or "")
    if not url:
        raise InvalidDriverInfo(
            "[deploy]http_url is not set, so there is no web server from which this machine could"
            " fetch what it boots"
        )
    return urls.checked(url, "external_http_url or [deploy]http_url").rstrip("/")


def in_url(host: str) -> str:
    """A host as URLs have it."""
    return f"[{host}]" if ":" in host else host


def _outward() -> str:
    """The address from which this host would talk to others; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address of documentation: any will do
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])
