"""URLs and addresses of this service in boot files, for machines, agents and BMCs."""

import socket

from drivers.core.errors import InvalidDriverInfo
from drivers.core.target import Options, Target
from drivers.net import urls

_EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - only compared


def of_host(options: Options) -> str:
    """Return the address of this host for machines: `[DEFAULT]my_ip`, or `[api]host_ip`."""
    configured_address = options["DEFAULT"]["my_ip"]
    if configured_address:
        return str(configured_address)
    listened = str(options["api"]["host_ip"])
    return _outward() if listened in _EVERYWHERE else listened


def of_api(options: Options, *, outside: bool = False) -> str:
    """
    Return the URL of the API, without a trailing slash.

    outside: for machines that may be on another network, as those booted by virtual media.
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
    Return the URL of `[deploy]http_root`, without a trailing slash.

    outside: for BMCs, which may be on another network.

    Raises InvalidDriverInfo: no URL is set, or it is malformed.
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
    """Return a host as written in URLs: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host


def _outward() -> str:
    """Return this host's source address for other networks. Sends no packet."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # any remote address; this one is for documentation
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])
