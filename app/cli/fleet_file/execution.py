"""Requests of a plan, in an order that parents, ports and deletions allow."""

from collections.abc import Iterator, Sequence

from app.cli.bulk import in_parallel
from app.cli.fleet_file import plan
from app.cli.fleet_file.plan import Action, Machine, PortChange
from app.cli.rest import Api
from app.cli.terminal.errors import Failure

DONE = {
    Action.CREATE: "created", Action.CHANGE: "changed", Action.DELETE: "deleted",
    Action.NOTHING: "unchanged",
}  # fmt: skip


def rehearse_all(api: Api, machines: Sequence[Machine], jobs: int) -> None:
    """Rehearse machines; refusals become their problems."""
    for _ in in_parallel(api, machines, jobs, plan.rehearse):
        pass


def run(
    api: Api, machines: Sequence[Machine], jobs: int
) -> Iterator[tuple[Machine, Failure | None]]:
    """
    Yield each machine with the failure of its requests, if any, in order of completion.

    A machine whose requests end half-way is completed by the next run, which compares again.
    """
    waves: list[list[Machine]] = [[], [], [], []]
    for machine in machines:
        is_child = bool((machine.node or {}).get("parent_node"))
        index = 2 + (not is_child) if machine.is_pruned else int(bool(machine.parent))
        waves[index].append(machine)
    for wave in waves:
        yield from in_parallel(api, wave, jobs, _apply)


def _apply(api: Api, machine: Machine) -> None:
    """Send the requests for a machine. Raises Failure: one is refused, or gets no answer."""
    match machine.action:
        case Action.CREATE:
            _create(api, machine)
        case Action.CHANGE:
            assert machine.node
            uuid = machine.node["uuid"]
            if patch := [item.patch for item in machine.changes]:
                api.request("PATCH", "nodes", uuid, body=patch)
            _change_parts(api, uuid, machine.ports, machine.traits)
        case Action.DELETE:
            assert machine.node
            api.request("DELETE", "nodes", machine.node["uuid"])


def _create(api: Api, machine: Machine) -> None:
    uuid = api.request("POST", "nodes", body=machine.body()).json()["uuid"]
    ports = [plan.new_port(port) for port in machine.values.get("ports") or ()]
    try:
        _change_parts(api, uuid, ports, machine.values.get("traits") or None)
        if patch := machine.later_patch():
            api.request("PATCH", "nodes", uuid, body=patch)
    except Failure as failure:
        raise Failure(f"the node was created, but {failure}; a new run completes it") from failure


def _change_parts(
    api: Api, uuid: str, ports: Sequence[PortChange], traits: Sequence[str] | None
) -> None:
    for port in ports:
        try:
            if not port.uuid:
                api.request("POST", "ports", body={"node_uuid": uuid, **port.body})
            elif port.changes:
                patch = [item.patch for item in port.changes]
                api.request("PATCH", "ports", port.uuid, body=patch)
            else:
                api.request("DELETE", "ports", port.uuid)
        except Failure as failure:
            raise Failure(f"port {port.address}: {failure}") from failure
    if traits is not None:
        api.request("PUT", "nodes", uuid, "traits", body={"traits": list(traits)})
