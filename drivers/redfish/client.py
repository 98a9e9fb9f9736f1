"""
The commands to a BMC in Redfish, by sushy.

One connection per BMC is kept between commands, in the governor (`drivers.core.bmc`), and used only
while its turn is held.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from itertools import chain
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

#: TaskStates of a task that has not ended.
_UNDER_WAY = frozenset(
    {"New", "Starting", "Running", "Suspended", "Interrupted", "Pending", "Stopping", "Service",
     "Cancelling"}
)  # fmt: skip
#: What a message of HPE's ends in.
_IN_POST = "UnableToModifyDuringSystemPOST"


class Connection(Session):
    """The session with one BMC, and the commands to it."""

    def set_boot(self, **values: str) -> None:
        """
        Set boot options: `target`, `enabled`, `mode`, in Redfish's words; `http_boot_uri`.

        Raises what `turn` does, and Busy while the machine is in POST (HPE).
        """
        import sushy
        from sushy import exceptions as theirs

        kinds = {
            "target": sushy.BootSource,
            "enabled": sushy.BootSourceOverrideEnabled,
            "mode": sushy.BootSourceOverrideMode,
        }
        options = {name: kinds.get(name, str)(value) for name, value in values.items()}
        system = self.system(fresh=False)
        with errors_of(self.access):
            try:
                system.set_system_boot_options(**options)
            except theirs.BadRequestError as error:
                if _IN_POST in str(error):
                    raise Busy(f"BMC {self.access.address} refused: {_IN_POST}") from None
                raise
        system.invalidate()

    def drives(self, wanted: Collection[str] = ("CD", "DVD")) -> Iterator[Any]:
        """
        Virtual drives of these MediaTypes, read now: the system's own, else its managers'.

        Raises NotSupported when none of them has virtual media.
        """
        system, found = self.system(fresh=False), False
        for owner in chain([system], parts.managers(self, system)):
            if parts.link(owner, "virtual_media") is None:
                continue
            found = True
            for drive in parts.members(self, owner, "virtual_media"):
                kinds = {kind.value for kind in drive.media_types or ()}
                if kinds.intersection(wanted):
                    yield drive
            if owner is system:
                return
        if not found:
            raise NotSupported(f"BMC {self.access.address} has no virtual media")

    def secure_boot(self) -> Any:
        """sushy's SecureBoot of the system, read anew. Raises NotSupported."""
        resource = part(self.system(fresh=False), "secure_boot")
        resource.refresh(force=True)
        return resource

    def bios(self) -> Any:
        """sushy's Bios of the system, read anew. Raises NotSupported."""
        resource = part(self.system(fresh=False), "bios")
        resource.refresh(force=True)
        return resource

    def event_service(self) -> Any:
        """sushy's EventService of the BMC. Raises NotSupported."""
        from sushy import exceptions as theirs

        try:
            return self.open().get_event_service()
        except theirs.MissingAttributeError:
            raise NotSupported(f"BMC {self.access.address} has no event service") from None

    def lights(self) -> dict[tuple[str, str], Any]:
        """(component, name) -> what has a light: sushy's system, its chassis, its drives."""
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
        Create (POST) or delete a volume; the path at which the BMC tells of its progress, if it is
        a task. apply: the OperationApplyTime. sushy's own would wait for it, `Immediate` or not.
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
        """The paths of the BMC's tasks; none for a BMC that does not tell of any."""
        from sushy import exceptions as theirs

        try:
            found = self.open().get_task_service().tasks
            found.refresh(force=True)
        except (theirs.MissingAttributeError, theirs.ResourceNotFoundError):
            return []
        return list(found.members_identities)

    def task_failure(self, path: str) -> str | None:
        """
        "" while a task of the BMC runs, None when it has ended well, else why it failed.

        A task that the BMC has forgotten has ended.
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
    """The kept connection of a BMC, or a new one when there is none or driver_info has changed."""
    if not isinstance(bmc.connection, Connection) or bmc.connection.access != wanted:
        bmc.connection = Connection(wanted)
    return bmc.connection


@contextmanager
def turn(target: Target, bmcs: Bmcs, urgency: Urgency = Urgency.ORDER) -> Iterator[Connection]:
    """Have a node's BMC to oneself for one command. Raises HardwareErrors only."""
    wanted = access(target)
    with bmcs.turn(wanted.key, urgency) as bmc, errors_of(wanted):
        yield connection(bmc, wanted)
