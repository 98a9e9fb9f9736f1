"""
Redfish: boot device of BMCs for which `Cd` is the drive in the machine, by an action of the vendor.
"""

from http import HTTPStatus
from typing import Any

from drivers.core.bmc import Bmcs
from drivers.core.errors import Busy, NotSupported, StepFailed
from drivers.core.steps import Done, Outcome, Wait
from drivers.core.target import Target
from drivers.redfish import client, parts, tasks
from drivers.redfish.client import Connection
from drivers.redfish.errors import errors_of
from drivers.redfish.tasks import End
from drivers.redfish.values import entry, text

#: Seconds between polls of the BMC's task.
POLL_INTERVAL = 2.0
#: Polls in a row at which the BMC may not have the task: jobs of iDRAC appear late.
MOST_MISSING = 15
_ENDED = (End.SUCCEEDED, End.STAGED, End.UNCLEAR)
_ACTION = "OemManager.v1_0_0#OemManager.ImportSystemConfiguration"
#: Message ids of iDRAC: another job runs, or is pending until the next start.
_BUSY = ("LC068", "SYS011", "RAC0679")
_CONFIGURATION = (
    '<SystemConfiguration><Component FQDD="{manager}"><Attribute Name="ServerBoot.1#BootOnce">'
    '{once}</Attribute><Attribute Name="ServerBoot.1#FirstBootDevice">VCD-DVD</Attribute>'
    "</Component></SystemConfiguration>"
)


def choose_virtual_cd(target: Target, bmcs: Bmcs, *, persistent: bool) -> Outcome:
    """
    Part of a step: set the boot device to the virtual CD of an iDRAC; `Done` once its task ends.

    Raises NotSupported: the BMC lacks the action.
    Raises Busy: another job runs.
    Raises StepFailed: the task failed.
    Raises HardwareError.
    """
    progress = target.progress
    with client.turn(target, bmcs) as bmc:
        task = progress.get("task") or _order(target, bmc, persistent=persistent)
        if task is None:
            return Done()
        look = tasks.look(bmc, task, tasks.Seen(progress.get("seen", "")))
    if look.end is End.FAILED:
        raise StepFailed(f"boot device VCD-DVD of node {target.uuid}: {look.words}")
    missing = int(progress.get("missing", 0)) + 1 if look.end is End.MISSING else 0
    if look.end in _ENDED or missing > MOST_MISSING:
        if look.end is not End.SUCCEEDED and not look.seen:
            raise StepFailed(f"boot device VCD-DVD of node {target.uuid}: its task {task} is lost")
        return Done()
    following = {"task": task, "seen": look.seen, "missing": missing}
    return Wait({**following, "waits_for": "the boot device"}, poll_after=POLL_INTERVAL)


def _order(target: Target, bmc: Connection, *, persistent: bool) -> str | None:
    from sushy import exceptions as theirs
    from sushy.taskmonitor import TaskMonitor

    manager = next(iter(parts.managers(bmc, bmc.system(fresh=False))), None)
    path = None if manager is None else _action(manager)
    if manager is None or path is None:
        raise NotSupported(
            f"BMC {bmc.access.address} cannot boot from virtual media: it lacks"
            " ImportSystemConfiguration; update its firmware, or use boot_interface ipxe"
        )
    once = "Disabled" if persistent else "Enabled"
    configuration = _CONFIGURATION.format(manager=manager.identity, once=once)
    body = {"ShareParameters": {"Target": ["ALL"]}, "ImportBuffer": configuration}
    connector = bmc.open()._conn
    target.before_order()
    with errors_of(bmc.access):
        try:
            answer = connector.post(path, data=body)
        except theirs.HTTPError as error:
            if any(name in f"{error} {error.body}" for name in _BUSY):
                raise Busy(f"BMC {bmc.access.address} runs another job: {error.detail}") from None
            raise
        if answer.status_code != HTTPStatus.ACCEPTED:
            return None
        return str(TaskMonitor.from_response(connector, answer, path).task_monitor_uri)


def _action(manager: Any) -> str | None:
    actions = entry(entry(manager.json, "Actions"), "Oem")
    names = (_ACTION, "#OemManager.ImportSystemConfiguration")
    paths = (text(entry(entry(actions, name), "target"), longest=2048) for name in names)
    return next(filter(None, paths), None)
