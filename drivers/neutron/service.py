"""
Client of Neutron, through openstacksdk (extra `openstack`).

Ports and networks are dicts with the names of Neutron's API. Errors: Unreachable (no answer),
InvalidDriverInfo (settings of [neutron], unknown names), NotFound, Refused (with Neutron's
message), Unexpected (5xx). The import takes half a second: the interfaces import this module when
they send a request.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from drivers.core.errors import InvalidDriverInfo, NotFound, Refused, Unexpected
from drivers.net import keystone

Fields = Mapping[str, object]
#: Name in Neutron's API -> attribute of openstacksdk, where they differ.
_ATTRIBUTES = {
    "admin_state_up": "is_admin_state_up",
    "binding:host_id": "binding_host_id",
    "binding:profile": "binding_profile",
    "binding:vnic_type": "binding_vnic_type",
    "security_groups": "security_group_ids",
}


class NetworkService:
    """The service of settings [neutron]; `connect` makes it."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @property
    def _neutron(self) -> Any:
        """The proxy of openstacksdk; the first use asks Neutron for its versions."""
        return self._connection.network

    def network(self, ident: str, setting: str) -> dict[str, Any]:
        """
        Return a network by UUID or name.

        Raises InvalidDriverInfo: there is none, or several have the name. setting: names its
            origin.
        """
        with _translated(f"network {ident}"):
            rows = list(self._neutron.networks(name=ident))
            if not rows:
                row = self._neutron.find_network(ident, ignore_missing=True)
                rows = [] if row is None else [row]
        if len(rows) == 1:
            return _document(rows[0])
        many = f"{len(rows)} networks" if rows else "no network"
        raise InvalidDriverInfo(
            f"{setting}: Neutron has {many} of the name or UUID {ident!r}; give the UUID of one"
        )

    def network_of(self, port: Fields) -> dict[str, Any]:
        """Return the network of a port."""
        with _translated(f"network {port['network_id']}"):
            return _document(self._neutron.get_network(port["network_id"]))

    def segment_of(self, fixed_ip: Fields) -> dict[str, Any] | None:
        """Return the network segment of a fixed IP address; None: its subnet is on all."""
        with _translated(f"subnet {fixed_ip['subnet_id']}"):
            subnet = self._neutron.get_subnet(fixed_ip["subnet_id"])
            return subnet.segment_id and _document(self._neutron.get_segment(subnet.segment_id))

    def port(self, uuid: str) -> dict[str, Any] | None:
        """Return a port; None: there is none."""
        try:
            with _translated(f"port {uuid}"):
                return _document(self._neutron.get_port(uuid))
        except NotFound:
            return None

    def ports(self, **filters: object) -> list[dict[str, Any]]:
        """Return the ports whose fields have one of the values."""
        with _translated("the list of ports"):
            ports = [_document(row) for row in self._neutron.ports(**filters)]
        return [port for port in ports if _fits(port, filters)]  # filters may be ignored

    def create(self, fields: Fields) -> dict[str, object]:
        """Create a port."""
        with _translated(f"a new port in network {fields['network_id']}"):
            return _document(self._neutron.create_port(**_attributes(fields)))

    def update(self, uuid: str, fields: Fields) -> dict[str, object]:
        """Update a port; return it as it is then."""
        with _translated(f"port {uuid}"):
            return _document(self._neutron.update_port(uuid, **_attributes(fields)))

    def delete(self, uuid: str) -> None:
        """Delete a port; no error if it is deleted already."""
        with _translated(f"port {uuid}"):
            self._neutron.delete_port(uuid, ignore_missing=True)

    def trunk(self, uuid: str) -> dict[str, object]:
        """Return a trunk."""
        with _translated(f"trunk {uuid}"):
            return _document(self._neutron.get_trunk(uuid))


def connect(options: Mapping[str, object]) -> NetworkService:
    """
    Return the network service of the settings [neutron].

    Connections are kept, so that not each step gets a token of its own.

    Raises InvalidDriverInfo: a setting is missing or wrong, or openstacksdk is not installed.
    """
    return _connect(json.dumps(options, default=str, sort_keys=True))


@lru_cache(maxsize=4)
def _connect(settings: str) -> NetworkService:
    options = json.loads(settings)
    try:
        from openstack.connection import Connection
    except ImportError as error:
        raise InvalidDriverInfo(
            "network interfaces flat and neutron need openstacksdk on the conductors: install"
            f" ingot[openstack] ({error})"
        ) from error
    session = keystone.session(options, "neutron", options["request_timeout"])
    connection = Connection(
        session=session,
        region_name=options["region_name"],
        network_endpoint_override=options["endpoint_override"],
        network_interface=list(options["valid_interfaces"]),
        network_connect_retries=options["retries"],
        network_status_code_retries=options["retries"],
    )
    return NetworkService(connection)


def _attributes(fields: Fields) -> dict[str, object]:
    return {_ATTRIBUTES.get(name, name): value for name, value in fields.items()}


def _document(row: Any) -> dict[str, object]:
    """Return a resource of openstacksdk with the names of Neutron's API."""
    document: dict[str, object] = row.to_dict(original_names=True, computed=False)
    return document


def _fits(port: Fields, filters: Fields) -> bool:
    for name, value in filters.items():
        values = value if isinstance(value, list | tuple) else [value]
        if port.get(name) not in values:
            return False
    return True


@contextmanager
def _translated(subject: str) -> Iterator[None]:
    """Raise errors of openstacksdk and keystoneauth as errors of drivers."""
    from openstack import exceptions as sdk

    try:
        with keystone.translated("Neutron", "neutron", f" a request about {subject}"):
            yield
    except sdk.NotFoundException as error:
        raise NotFound(f"Neutron answered 404 for {subject}: {_message(error)}") from error
    except sdk.HttpException as error:
        status = error.status_code or 0
        text = f"Neutron answered {status or 'an error'} for {subject}: {_message(error)}"
        if 400 <= status < 500:
            raise Refused(text) from error
        raise Unexpected(text) from error
    except sdk.SDKException as error:
        raise InvalidDriverInfo(f"[neutron]: {_message(error)}") from error


def _message(error: Exception) -> str:
    """Return Neutron's own sentence, without the address and the name of a class."""
    details = getattr(error, "details", None)
    if isinstance(details, str) and details:
        try:
            details = json.loads(details)
        except ValueError:
            return details
    for body in _bodies(details):
        if message := body.get("message"):
            return str(message)
    return str(error)


def _bodies(details: object) -> Iterable[Mapping[str, object]]:
    if isinstance(details, Mapping):
        yield details
        yield from (body for body in details.values() if isinstance(body, Mapping))
