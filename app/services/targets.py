"""
From rows to what a driver may know: the only maker of targets.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.models import AgentRecord, Node, Port
from app.runtime import Runtime, of
from drivers.interfaces import KINDS
from drivers.registry import Driver
from drivers.target import Agent, Nic, Target

#: What the agent is told of a node, in `params.node` of a command (IPA_PROTOCOL, "Commands").
_RECORD = (
    "uuid", "name", "driver", "properties", "instance_info", "instance_uuid", "extra",
    "driver_internal_info", "resource_class", "target_raid_config", "raid_config",
    "provision_state", "power_state", "owner", "lessee", "network_data",
)  # fmt: skip


def driver_of(runtime: Runtime, node: Node) -> Driver:
    """The interfaces of a node; `instance_info` may name others for one deployment."""
    names = {f"{kind}_interface": kind for kind in KINDS}
    return runtime.drivers.driver(
        node.driver,
        {
            kind: node.instance_info.get(column) or getattr(node, column)
            for column, kind in names.items()
        },
    )


def build(
    runtime: Runtime,
    node: Node,
    ports: Sequence[Port] = (),
    agent: AgentRecord | None = None,
    **attempt: Any,
) -> Target:
    """
    A target; `attempt` holds what only an attempt of a step has (progress, before_order, ...).

    Raises InvalidDriverInfo when the driver or one of its interfaces is not loaded here.
    """
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
        power_state=node.power_state,
        provision_state=node.provision_state,
        disable_power_off=node.disable_power_off,
        nics=tuple(Nic(port.uuid, port.address, port.pxe_enabled, port.extra) for port in ports),
        agent=_agent(agent),
        record=_record(node),
        options=options,
        **attempt,
    )


def of_node(session: Session, node: Node) -> Target:
    """The target of a node, with its ports and its agent read in this session."""
    ports = session.scalars(select(Port).where(Port.node_id == node.id)).all()
    return build(of(session), node, ports, session.get(AgentRecord, node.id))


def _agent(agent: AgentRecord | None) -> Agent:
    if agent is None:
        return Agent()
    return Agent(
        agent.url,
        agent.token,
        agent.verify_ca,
        agent.version,
        agent.steps,
        agent.hardware_manager_version,
    )


def _record(node: Node) -> Mapping[str, Any]:
    record = {name: getattr(node, name) for name in _RECORD}
    record["driver_info"] = {}
    record["traits"] = {"objects": []}
    return record
