"""
Sessions of keystoneauth for services of OpenStack, by the settings of a group such as [cinder].

The import takes half a second; clients of the services import it when a request is due.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import requests
from keystoneauth1 import exceptions, loading
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session

from drivers.core.errors import InvalidDriverInfo, Refused, Unexpected, Unreachable


def session(options: Mapping[str, Any], group: str, timeout: float) -> Session:
    """
    Return a session of a service. group: of the settings `options`. timeout: seconds for an answer.

    Raises InvalidDriverInfo: a setting is missing or wrong.
    """
    try:
        loader: Any = loading.get_plugin_loader(options["auth_type"])
        accepted = {option.dest for option in loader.get_options()}
        values = {name: value for name, value in options.items() if name in accepted and value}
        plugin = loader.load_from_options(**values)
    except exceptions.ClientException as error:
        raise InvalidDriverInfo(f"[{group}]auth_type: {error}") from error
    verify = not options["insecure"] and (options["cafile"] or True)
    return Session(plugin, verify=verify, timeout=timeout)


@contextmanager
def adapter(
    options: Mapping[str, Any],
    group: str,
    service_type: str,
    transport: requests.Session | None = None,
    **further: Any,
) -> Iterator[Adapter]:
    """
    Connect to a service by its endpoint.

    transport: session that carries the requests, instead of one of keystoneauth. further: arguments
    of keystoneauth's `Adapter`.

    Raises InvalidDriverInfo: a setting is missing or wrong.
    """
    connection = session(options, group, options["timeout"])
    if transport is not None:
        connection.session = transport
    try:
        yield Adapter(
            connection,
            service_type=service_type,
            interface=list(options["valid_interfaces"]),
            region_name=options["region_name"],
            endpoint_override=options["endpoint_override"],
            **further,
        )
    finally:
        connection.session.close()


@contextmanager
def translated(service: str, group: str, request: str = "") -> Iterator[None]:
    """
    Raise errors of keystoneauth as errors of drivers.

    service: its name in messages. group: of its settings. request: clause about the request.
    """
    try:
        yield
    except exceptions.HttpServerError as error:
        raise Unexpected(f"Keystone gave no token for {service}: {error}") from error
    except exceptions.HttpError as error:  # of Keystone, which refuses the service's credentials
        raise Refused(f"Keystone refused a token for {service}: {error}") from error
    except (exceptions.ConnectionError, exceptions.DiscoveryFailure) as error:
        kind = type(error).__name__
        raise Unreachable(f"{service} did not answer{request} ({kind})") from error
    except exceptions.ClientException as error:  # such as: no endpoint in the catalog
        raise InvalidDriverInfo(f"[{group}]: {error}") from error
