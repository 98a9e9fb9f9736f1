"""
Redfish commands to a BMC, by sushy.

The governor (`drivers.core.bmc`) keeps one connection per BMC between commands. It is used only
while the BMC's turn is held.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from drivers.core.bmc import Bmc, Bmcs, Urgency
from drivers.core.errors import Busy, NotSupported
from drivers.core.target import Target
from drivers.redfish import parts
from drivers.redfish.access import Access, access
from drivers.redfish.errors import errors_of
from drivers.redfish.parts import part
from drivers.redfish.session import Session
from drivers.redfish.values import text

#: TaskStates of an unfinished task.
_UNDER_WAY = frozenset(
    {"New", "Starting", "Running", "Suspended", "Interrupted", "Pending", "Stopping", "Service",
     "Cancelling"}
)  # fmt: skip
#: Message id of HPE's BMCs.
_IN_POST = "UnableToModifyDuringSystemPOST"


class Connection(Session):
    """Session with a BMC, and the commands to it."""

    def set_boot(self, **values: str) -> None:
        """
        Set boot options: `target`, `enabled`, `mode` (values of Redfish), `http_boot_uri`.

        Raises HardwareError.
        Raises Busy: the machine is in POST (HPE).
        """
        import sushy

        kinds = {
            "target": sushy.BootSource,
            "enabled": sushy.BootSourceOverrideEnabled,
            "mode": sushy.BootSourceOverrideMode,
        }
        options = {name: kinds.get(name, str)(value) for name, value in values.items()}
        system = self.system(fresh=False)
        with self.refusals():
            system.set_system_boot_options(**options)
        system.invalidate()

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """
        Translate errors of an order inside.

        Raises HardwareError.
        Raises Busy: the machine is in POST (HPE), or the BMC is busy (503).
        """
        from sushy import exceptions as theirs

        with errors_of(self.access):
            try:
                yield
            except theirs.HTTPError as error:
                if _IN_POST in f"{error} {error.body}":
                    raise Busy(f"BMC {self.access.address} refused: {_IN_POST}") from None
                if error.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
                    raise Busy(f"BMC {self.access.address} is busy: {error.detail}") from None
                raise

    def secure_boot(self) -> Any:
        """
        Read the system's SecureBoot resource.

        Raises NotSupported: there is none.
        """
        resource = part(self.system(fresh=False), "secure_boot")
        resource.refresh(force=True)
        return resource

    def bios(self) -> Any:
        """
        Read the system's Bios resource.

        Raises NotSupported: there is none.
        """
        resource = part(self.system(fresh=False), "bios")
        resource.refresh(force=True)
        return resource

    def event_service(self) -> Any:
        """
        Return the BMC's EventService resource.

        Raises NotSupported: there is none.
        """
        from sushy import exceptions as theirs

        try:
            return self.open().get_event_service()
        except theirs.MissingAttributeError:
            raise NotSupported(f"BMC {self.access.address} has no event service") from None

    def indicators(self) -> dict[tuple[str, str], Any]:
        """Return the resources that have an indicator LED, by (component, name)."""
        system = self.system(fresh=True)
        named = [("system", "led", system)]
        named += [("chassis", each.identity, each) for each in parts.chassis(self, system)]
        named += [("disk", each.identity, each) for each in parts.drives(self, system)]
        return {
            (component, name): each
            for component, name, each in named
            if text(name) and each.indicator_led is not None
        }

    def change_volumes(
        self, method: str, path: str, body: Mapping[str, Any], apply: str | None
    ) -> str | None:
        """
        Create (POST) or delete a volume; return the path of the BMC's task, or None without a task.

        apply: OperationApplyTime; None: the BMC supports none. sushy's own methods would wait for
        the end of the task.
        """
        from sushy.taskmonitor import TaskMonitor

        connector = self.open()._conn
        document = {**body, **({"@Redfish.OperationApplyTime": apply} if apply else {})}
        send = connector.post if method == "POST" else connector.delete
        answer = send(path, data=document or None)
        if answer.status_code != HTTPStatus.ACCEPTED:
            return None
        return str(TaskMonitor.from_response(connector, answer, path).task_monitor_uri)

    def tasks(self) -> list[str]:
        """Return the paths of the BMC's tasks; empty without a task service."""
        from sushy import exceptions as theirs

        try:
            found = self.open().get_task_service().tasks
            found.refresh(force=True)
        except (theirs.MissingAttributeError, theirs.ResourceNotFoundError):
            return []
        return list(found.members_identities)

    def task_failure(self, path: str) -> str | None:
        """
        Return "" while a task of the BMC runs, None if it has succeeded, else the error.

        A task that the BMC has deleted counts as succeeded.
        """
        from sushy import exceptions as theirs

        try:
            monitor = self.open().get_task_monitor(path)
            if monitor.check_is_processing:
                return ""
            task = monitor.get_task()
        except theirs.ResourceNotFoundError:
            return None
        state = getattr(task.task_state, "value", task.task_state)
        if state in _UNDER_WAY:
            return ""
        if state == "Completed":
            return None
        said = "; ".join(str(each.message) for each in task.messages or ())
        return f"task {state}: {said}" if said else f"task {state}"


def connection(bmc: Bmc, wanted: Access) -> Connection:
    """
    Return the BMC's kept connection, for one command.

    Make a new one at first, or if driver_info has changed.
    """
    if not isinstance(bmc.connection, Connection) or bmc.connection.access != wanted:
        bmc.connection = Connection(wanted)
    bmc.connection.command.begin()
    return bmc.connection


@contextmanager
def turn(target: Target, bmcs: Bmcs, urgency: Urgency = Urgency.ORDER) -> Iterator[Connection]:
    """
    Hold the turn of a node's BMC for one command.

    Raises HardwareError, and no other error. Raises Unreachable, other than Unconfirmed: no order
    was sent, or the last one was not.
    """
    wanted = access(target)
    with bmcs.turn(wanted.key, urgency) as bmc:
        session = connection(bmc, wanted)
        with session.command.judged(), errors_of(wanted):
            yield session
