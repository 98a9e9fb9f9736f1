"""
Build targets: the snapshot of a node and its parts that drivers get. No other module does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Text, bindparam, cast, func, select, type_coerce
from sqlalchemy.orm import Session
from sqlalchemy.orm.util import identity_key

from app.db import detached_rows
from app.db.clock import moment
from app.db.prepared import Prepared
from app.db.sealing import data_key_of, unreadable_secret
from app.db.transactions import connection_of
from app.hardware.switching import SwitchedNetworksOfNode
from app.models import AgentRecord, Node, NodeTrait, Port, Portgroup
from app.models import VolumeConnector as ConnectorRow
from app.models import VolumeTarget as VolumeRow
from app.models.vaulting import COLUMNS, secrets_in
from app.process import tracing
from app.runtime import Runtime, runtime_of
from drivers.core.driver import Driver
from drivers.core.errors import InvalidDriverInfo
from drivers.core.interface_kinds import KINDS
from drivers.core.password_rotation import KEY as CANDIDATES
from drivers.core.references import is_reference
from drivers.core.target import Agent, Nic, NicGroup, Target, VolumeConnector, VolumeTarget

#: Fields of the node that are sent to the agent, in `params.node` of a command.
_RECORD = (
    "uuid", "name", "driver", "properties", "instance_info", "instance_uuid", "extra",
    "driver_internal_info", "resource_class", "target_raid_config", "raid_config",
    "provision_state", "power_state", "owner", "lessee", "network_data",
)  # fmt: skip


def driver_of(runtime: Runtime, node: Node) -> Driver:
    """
    Return the interfaces of a node.

    A name in `instance_info` overrides that of the node for one deployment, as in Ironic.
    """
    names = {f"{kind}_interface": kind for kind in KINDS}
    return runtime.drivers.driver(
        node.driver,
        {
            kind: node.instance_info.get(column) or getattr(node, column)
            for column, kind in names.items()
        },
        node.instance_info,
    )


def require_readable(name: str, document: object) -> None:
    """
    Check that keys open all secrets of a document. name: of the document, for the error.

    Raises InvalidDriverInfo: names the secret, and the data key that it needs.
    """
    if (unreadable := unreadable_secret(document)) is not None:
        path, secret = unreadable
        raise InvalidDriverInfo(
            f"{name}/{path}: it cannot be decrypted without data key {data_key_of(secret)}, or was"
            " moved here from elsewhere in the database: set it again"
        )


def without_instance(runtime: Runtime, node: Node, target: Target) -> Target:
    """
    Return the target of a node whose instance is removed, with the interfaces of the node itself.

    Raises InvalidDriverInfo: one of them is not loaded here.
    """
    interfaces = {kind: getattr(node, f"{kind}_interface") for kind in KINDS}
    return replace(target, driver=runtime.drivers.driver(node.driver, interfaces), instance_info={})


def build(
    runtime: Runtime,
    node: Node,
    ports: Sequence[Port] = (),
    agent: AgentRecord | None = None,
    **parts: Any,
) -> Target:
    """
    Build a target. `parts`: those of `rarely_needed`, and the fields of a step's attempt (progress,
    before_order, ...).

    Secrets in the vault are read; so it is called in no transaction. In one: `of_node`.

    Raises InvalidDriverInfo: the driver or one of its interfaces is not loaded here, or a secret of
        `driver_info` cannot be decrypted: BMCs lock users after wrong passwords.
    Raises SecretsUnavailable: the vault does not give the node's secrets now.
    """
    return with_secrets(runtime, _build(runtime, node, ports, agent, **parts))


def with_secrets(runtime: Runtime, target: Target) -> Target:
    """
    Return a target of `of_node` with the secrets that its node has in the vault.

    Raises InvalidDriverInfo, SecretsUnavailable: see `build`.
    """
    documents = {column: getattr(target, column) for column in COLUMNS}
    if runtime.vault is not None:
        opened_documents = {
            column: runtime.vault.opened(target.uuid, column, document)
            for column, document in documents.items()
        }
        return replace(target, **opened_documents)
    for column, document in documents.items():
        for path, value in secrets_in(column, document):
            if is_reference(value):
                raise InvalidDriverInfo(
                    f"{column}/{'/'.join(map(str, path))}: it is in the vault of the service, and"
                    " this process has no [vault]address"
                )
    return target


def _build(
    runtime: Runtime,
    node: Node,
    ports: Sequence[Port],
    agent: AgentRecord | None,
    *,
    traits: Sequence[str] = (),
    silent_for: float | None = None,
    groups: Sequence[Portgroup] = (),
    **attempt: Any,
) -> Target:
    """
    Build a target with the references to secrets in the vault.

    traits: are sent to the agent. silent_for: seconds since its last heartbeat. groups: are needed
    if the network interface keeps VIFs. attempt: fields of a step's attempt.

    Raises InvalidDriverInfo.
    """
    require_readable("driver_info", node.driver_info)
    options = runtime.cache.get("options")
    if options is None:
        options = runtime.cache["options"] = runtime.settings.options()
    return Target(
        uuid=node.uuid,
        name=node.name,
        driver=driver_of(runtime, node),
        driver_info=node.driver_info,
        driver_internal_info=node.driver_internal_info,
        properties=node.properties,
        instance_info=node.instance_info,
        extra=node.extra,
        network_data=node.network_data,
        power_state=node.power_state,
        provision_state=node.provision_state,
        disable_power_off=node.disable_power_off,
        nics=_nics(ports, groups),
        nic_groups=tuple(map(_nic_group, groups)),
        agent=_agent(agent, silent_for),
        record=_record(node, traits),
        options=options,
        observe_agent=_observe_agent,
        switched_networks=SwitchedNetworksOfNode(runtime, node.uuid),
        **attempt,
    )


def _observe_agent(command: str, url: str, result: str, seconds: float) -> None:
    """Record a request to an agent in the trace."""
    tracing.called(f"agent.{command}", url, result, seconds)


_PORTS = Prepared(select(*Port.__table__.c).where(Port.node_id == bindparam("node")))
_AGENT = Prepared(select(*AgentRecord.__table__.c).where(AgentRecord.node_id == bindparam("node")))
_port, _agent_row = detached_rows.reader(Port), detached_rows.reader(AgentRecord)


def of_node(session: Session, node: Node) -> Target:
    """
    Build the target of a node, with ports and agent as this session sees them.

    It has references to the secrets in the vault: `with_secrets` reads them, after the transaction.
    """
    ports = [_port(iter(row)) for row in _PORTS.all(connection_of(session), {"node": node.id})]
    agent = _agent_of(session, node)
    return _build(runtime_of(session), node, ports, agent, **_more(session, node, agent))


def _agent_of(session: Session, node: Node) -> AgentRecord | None:
    """The agent's row if the session has loaded it, with its pending changes; else a
    detached one."""
    loaded_row: AgentRecord | None = session.identity_map.get(identity_key(AgentRecord, node.id))
    if loaded_row is not None:
        return loaded_row
    row = _AGENT.first(connection_of(session), {"node": node.id})
    return None if row is None else _agent_row(iter(row))


def nodes_with(runtime: Runtime, node: Node, text: str) -> list[tuple[str, Mapping[str, Any]]]:
    """
    Return name or UUID, and `driver_info`, of the other nodes that have a text in `driver_info`.

    It reads the rows of all nodes: for steps that are rare.
    """
    stored = cast(type_coerce(Node.driver_info, Text), Text)
    query = select(Node.name, Node.uuid, Node.driver_info).where(
        Node.id != node.id, func.lower(stored).contains(text.lower(), autoescape=True)
    )
    with runtime.reading() as session:
        return [(row.name or row.uuid, row.driver_info) for row in session.execute(query)]


def rarely_needed(runtime: Runtime, node: Node, agent: AgentRecord | None) -> dict[str, Any]:
    """
    Return optional arguments of `build`: volumes, port groups, traits, and the agent's silence.

    Volumes if the storage interface uses them, port groups if the network interface keeps VIFs, the
    others if an agent runs; in all other cases no query is made.

    Raises InvalidDriverInfo: the driver or one of its interfaces is not loaded here.
    """
    driver = driver_of(runtime, node)
    if not (driver.storage.uses_volumes or driver.network.keeps_vifs or _runs(agent)):
        return {}
    with runtime.reading() as session:
        return _more(session, node, agent)


def _more(session: Session, node: Node, agent: AgentRecord | None) -> dict[str, Any]:
    driver = driver_of(runtime_of(session), node)
    fields = _volumes(session, node) if driver.storage.uses_volumes else {}
    if driver.network.keeps_vifs:
        of_node = select(Portgroup).where(Portgroup.node_id == node.id).order_by(Portgroup.id)
        fields["groups"] = list(session.scalars(of_node))
    if agent is not None and _runs(agent):
        if agent.last_heartbeat_at:
            silence = moment(session) - agent.last_heartbeat_at
            fields["silent_for"] = silence.total_seconds()
        query = select(NodeTrait.trait).where(NodeTrait.node_id == node.id)
        fields["traits"] = list(session.scalars(query.order_by(NodeTrait.trait)))
    return fields


def _runs(agent: AgentRecord | None) -> bool:
    return agent is not None and agent.url is not None


def _nics(ports: Sequence[Port], groups: Sequence[Portgroup]) -> tuple[Nic, ...]:
    uuids = {group.id: group.uuid for group in groups}
    return tuple(
        Nic(
            port.uuid,
            port.address,
            port.pxe_enabled,
            port.extra,
            uuids.get(port.portgroup_id) if port.portgroup_id is not None else None,
            port.local_link_connection,
            port.physical_network,
            port.is_smartnic,
            port.internal_info,
        )
        for port in ports
    )


def _nic_group(group: Portgroup) -> NicGroup:
    return NicGroup(
        group.uuid,
        group.name,
        group.address,
        group.mode,
        group.properties,
        group.physical_network,
        group.internal_info,
        group.extra,
    )


def _volumes(session: Session, node: Node) -> dict[str, Any]:
    connectors = session.scalars(
        select(ConnectorRow).where(ConnectorRow.node_id == node.id).order_by(ConnectorRow.id)
    )
    volumes = session.scalars(
        select(VolumeRow).where(VolumeRow.node_id == node.id).order_by(VolumeRow.boot_index)
    )
    return {
        "volume_connectors": tuple(
            VolumeConnector(row.uuid, row.type, row.connector_id, row.extra) for row in connectors
        ),
        "volume_targets": tuple(
            VolumeTarget(
                row.uuid,
                row.volume_type,
                row.volume_id,
                row.boot_index,
                row.properties,
                row.extra,
            )
            for row in volumes
        ),
    }


def _agent(agent: AgentRecord | None, silent_for: float | None) -> Agent:
    if agent is None:
        return Agent()
    return Agent(
        url=agent.url,
        token=agent.token,
        pregenerated=agent.pregenerated,
        verify_ca=agent.verify_ca,
        version=agent.version,
        status=agent.status,
        status_message=agent.status_message,
        silent_for=silent_for,
        steps=agent.steps,
        hardware_manager_version=agent.hardware_manager_version,
    )


def _record(node: Node, traits: Sequence[str]) -> Mapping[str, Any]:
    record = {name: getattr(node, name) for name in _RECORD}
    record["driver_info"] = {}
    record["driver_internal_info"] = {
        key: value for key, value in node.driver_internal_info.items() if key != CANDIDATES
    }
    record["traits"] = {"objects": [{"trait": trait} for trait in traits]}
    return record
