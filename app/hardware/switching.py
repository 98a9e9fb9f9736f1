"""Networks and switches as drivers get them: each is read when a driver asks for it."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Text, cast, select, type_coerce

from app.db.sealing import data_key_of
from app.models import Network, Node, Port, Portgroup
from app.models import Switch as SwitchRow
from app.rows.uuid_or_name import is_uuid
from app.runtime import Runtime
from app.text.masking import Unreadable
from drivers.core.errors import InvalidDriverInfo
from drivers.core.switching import Switch, SwitchedNetworks, VlanNetwork

#: Key of `properties` of a port group with the number of its LAG (`drivers.switch.interfaces`).
LAG = "switch_lag"
_SECRETS = ("password", "private_key", "enable_password")


class SwitchedNetworksOfNode(SwitchedNetworks):
    """The networks and switches of the database, for a node."""

    def __init__(self, runtime: Runtime, node: str) -> None:
        """node: UUID."""
        self._runtime = runtime
        self._node = node

    def network(self, ident: str) -> VlanNetwork | None:
        is_identified = (
            Network.uuid == str(UUID(ident)) if is_uuid(ident) else Network.name == ident
        )
        with self._runtime.reading() as session:
            row = session.scalar(select(Network).where(is_identified))
            return None if row is None else _network(row)

    def switch(self, link: Mapping[str, Any]) -> Switch | None:
        switch_id, name = str(link.get("switch_id") or "").lower(), link.get("switch_info")
        with self._runtime.reading() as session:
            row = session.scalar(select(SwitchRow).where(SwitchRow.switch_id == switch_id))
            if row is None and isinstance(name, str):
                row = session.scalar(select(SwitchRow).where(SwitchRow.name == name))
            return None if row is None else of_row(row)

    def claims(self, link: Mapping[str, object]) -> list[str]:
        switch, port = self.switch(link), str(link.get("port_id"))
        query = (
            select(Port.local_link_connection, Node.uuid, Node.name)
            .join(Node, Node.id == Port.node_id)
            .where(contains(Port.local_link_connection, f'"{port}"'), Node.uuid != self._node)
            .order_by(Node.id)
        )
        with self._runtime.reading() as session:
            rows = session.execute(query).all()
        return [
            f"node {row.name or row.uuid}"
            for row in rows
            if row.local_link_connection.get("port_id") == port
            and _is_at(row.local_link_connection, switch)
        ]

    def lag_claims(self, switch: Switch, lag: int) -> list[str]:
        query = (
            select(Portgroup.uuid, Portgroup.properties, Port.local_link_connection)
            .join(Port, Port.portgroup_id == Portgroup.id)
            .where(contains(Portgroup.properties, f'"{LAG}"'))
            .order_by(Portgroup.id)
        )
        with self._runtime.reading() as session:
            rows = session.execute(query).all()
        return [
            *dict.fromkeys(
                row.uuid
                for row in rows
                if row.properties.get(LAG) == lag and _is_at(row.local_link_connection, switch)
            )
        ]


def of_row(row: SwitchRow) -> Switch:
    """
    Return a switch as drivers get it.

    Raises InvalidDriverInfo: one of its secrets cannot be decrypted.
    """
    for name in _SECRETS:
        secret = getattr(row, name)
        if isinstance(secret, Unreadable):
            raise InvalidDriverInfo(
                f"{name} of switch {row.name}: it cannot be decrypted without data key"
                f" {data_key_of(secret)}: set it again"
            )
    return Switch(
        uuid=row.uuid,
        name=row.name,
        switch_id=row.switch_id,
        device_type=row.device_type,
        address=row.address,
        port=row.port,
        username=row.username,
        host_key=row.host_key,
        ports=tuple(row.ports),
        saves=row.save_changes,
        password=row.password,
        private_key=row.private_key,
        enable_password=row.enable_password,
    )


def _network(row: Network) -> VlanNetwork:
    return VlanNetwork(
        uuid=row.uuid,
        name=row.name,
        vlan=row.vlan,
        tagged_vlans=tuple(row.tagged_vlans),
        physical_network=row.physical_network,
        owner=row.owner,
        public=row.public,
    )


def _is_at(link: Mapping[str, object], switch: Switch | None) -> bool:
    """Whether a `local_link_connection` names a switch."""
    if switch is None:
        return False
    if str(link.get("switch_id") or "").lower() == switch.switch_id:
        return True
    return link.get("switch_info") == switch.name


def contains(column: object, text: str) -> ColumnElement[bool]:
    """Return the condition that the JSON text of a column contains a text."""
    stored = cast(type_coerce(column, Text), Text)
    return stored.contains(text, autoescape=True)
