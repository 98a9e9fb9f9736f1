"""
Power events for Nova: the power state of machines with an instance.

Nova's periodic comparison would otherwise switch an instance back to the state that Nova has
recorded. `POST /os-server-external-events`, microversion 2.76.

Errors: Unreachable (no answer), InvalidDriverInfo (settings of [nova]), Refused (a status of Nova or
Keystone), Unexpected (5xx, malformed answer).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from keystoneauth1 import exceptions, loading
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session

from drivers.core.errors import InvalidDriverInfo, Refused, Unexpected, Unreachable
from drivers.core.kinds import POWER_OFF, POWER_ON

#: The first version with power events.
VERSION = "2.76"
#: Power state of a machine -> its tag in an event; Nova knows no others.
TAGS: Mapping[str, str] = {POWER_ON: "POWER_ON", POWER_OFF: "POWER_OFF"}


def send(options: Mapping[str, Any], states: Mapping[str, str]) -> dict[str, int]:
    """
    Report power states. options: the settings of [nova]. states: instance UUID -> power state.

    Returns the instances that Nova did not take, each with its status: 404, it has no such
    instance; 422, the instance has no host yet.
    """
    events = [
        {"name": "power-update", "server_uuid": instance, "tag": TAGS[state]}
        for instance, state in states.items()
    ]
    with _compute(options) as nova, _translated():
        answer = nova.request(
            "/os-server-external-events", "POST", microversion=VERSION, raise_exc=False,
            json={"events": events},
        )  # fmt: skip
    try:
        document = answer.json() if answer.content else {}
    except ValueError:
        document = None
    if answer.status_code == 404 and isinstance(document, dict) and "itemNotFound" in document:
        return dict.fromkeys(states, 404)  # it has none of them
    if answer.status_code >= 500:
        raise Unexpected(f"Nova answered {answer.status_code} {answer.reason}")
    if not answer.ok:
        raise Refused(f"Nova answered {answer.status_code} {answer.reason}")
    listed = document.get("events") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise Unexpected("Nova did not answer with a list of events")
    return {
        str(event["server_uuid"]): int(event["code"])
        for event in listed
        if isinstance(event, dict) and "server_uuid" in event and event.get("code", 200) >= 400
    }


@contextmanager
def _compute(options: Mapping[str, Any]) -> Iterator[Adapter]:
    """Connect to Nova. Raises InvalidDriverInfo: a setting is missing or wrong."""
    try:
        loader: Any = loading.get_plugin_loader(options["auth_type"])
        named = {each.dest for each in loader.get_options()}
        given = {name: value for name, value in options.items() if name in named and value}
        plugin = loader.load_from_options(**given)
    except exceptions.ClientException as error:
        raise InvalidDriverInfo(f"[nova]auth_type: {error}") from error
    session = Session(
        plugin,
        verify=not options["insecure"] and (options["cafile"] or True),
        timeout=options["timeout"],
    )
    try:
        yield Adapter(
            session,
            service_type="compute",
            interface=list(options["valid_interfaces"]),
            region_name=options["region_name"],
            endpoint_override=options["endpoint_override"],
        )
    finally:
        session.session.close()


@contextmanager
def _translated() -> Iterator[None]:
    """Raise errors of keystoneauth as errors of drivers."""
    try:
        yield
    except exceptions.HttpServerError as error:
        raise Unexpected(f"Keystone gave no token for Nova: {error}") from error
    except exceptions.HttpError as error:  # of Keystone, which refuses the service's credentials
        raise Refused(f"Keystone refused a token for Nova: {error}") from error
    except (exceptions.ConnectionError, exceptions.DiscoveryFailure) as error:
        raise Unreachable(f"Nova did not answer ({type(error).__name__})") from error
    except exceptions.ClientException as error:  # such as: no endpoint in the catalog
        raise InvalidDriverInfo(f"[nova]: {error}") from error
