"""
Redfish: RAID volumes.

A step runs a list of jobs, deletions and creations of volumes: each is an order that is recorded
before it is sent, and the volumes afterwards are compared with it. If a controller applies changes
only at a restart, each job has a restart.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar

from drivers.core import raid_schema
from drivers.core.errors import InvalidDriverInfo, Unexpected
from drivers.core.interface_kinds import Raid
from drivers.core.steps import Arg, Done, Failed, Outcome, Resume, Wait, step
from drivers.core.target import Target, run_parts
from drivers.redfish import raid_plan
from drivers.redfish.changes.orders import Order, Request
from drivers.redfish.changes.restart import carry_out
from drivers.redfish.interface import Redfish
from drivers.redfish.raid_plan import GIB, LEVELS
from drivers.redfish.storage import Controller, Storage, read
from drivers.redfish.transport import client
from drivers.redfish.transport.client import Connection

_APPLY_TIME = "@Redfish.OperationApplyTime"
_FLAG = {"type": "boolean"}
_CONFIG = Arg("raid_config", "The RAID configuration", required=True, schema={"type": "object"})


class RedfishRaid(Redfish, Raid):
    """RAID configuration by the volumes of the system's storage."""

    def validate_raid_config(self, target: Target, config: Mapping[str, Any]) -> None:
        super().validate_raid_config(target, config)
        for number, disk in enumerate(config["logical_disks"]):
            _check_disk(f"logical_disks/{number}", disk)

    @step(clean=0, abortable=False, needs_ramdisk=False, resume=Resume.PROBE, args=Raid.SELECTION)
    def create_configuration(
        self,
        target: Target,
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
        delete_existing: bool = False,
    ) -> Outcome:
        """Create the volumes of the node's target_raid_config."""
        config = self.target_config(target)
        self.validate_raid_config(target, config)
        return self._create(
            target, config, create_root_volume, create_nonroot_volumes, delete_existing
        )

    @step(
        deploy=0,
        service=0,
        needs_ramdisk=False,
        resume=Resume.PROBE,
        args=(
            _CONFIG,
            Arg("create_root_volume", "Build the root volume; true when missing", False, _FLAG),
            Arg("create_nonroot_volumes", "Build all others; false when missing", False, _FLAG),
            Arg("delete_existing", "Delete what there is first; false when missing", False, _FLAG),
        ),
    )
    def apply_configuration(
        self,
        target: Target,
        raid_config: Mapping[str, Any],
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = False,
        delete_existing: bool = False,
    ) -> Outcome:
        """Create the volumes of a configuration, which becomes the node's target_raid_config."""
        self.validate_raid_config(target, raid_config)
        target.report(target_raid_config=dict(raid_config))
        return self._create(
            target, raid_config, create_root_volume, create_nonroot_volumes, delete_existing
        )

    @step(clean=0, deploy=0, service=0, needs_ramdisk=False, resume=Resume.PROBE)
    def delete_configuration(self, target: Target) -> Outcome:
        """Delete all RAID volumes."""
        if not target.progress:
            with client.turn(target, self.bmcs) as bmc:
                jobs = _deletions(_readable(read(bmc)))
            return Wait({"jobs": jobs, "number": 0}, poll_after=0)
        outcome = self._run_jobs(target)
        if isinstance(outcome, Done):
            with client.turn(target, self.bmcs) as bmc:
                remaining_volumes = _readable(read(bmc)).volumes
            if remaining_volumes:
                return Failed(
                    f"volumes are left: {', '.join(volume.path for volume in remaining_volumes)}"
                )
        return outcome

    def _create(
        self,
        target: Target,
        config: Mapping[str, object],
        root: bool,
        include_others: bool,
        delete: bool,
    ) -> Outcome:
        progress = target.progress
        disks = raid_schema.selected(config, root=root, include_others=include_others)
        if delete and not progress:
            # plan first: a configuration that cannot be built must not delete volumes
            with client.turn(target, self.bmcs) as bmc:
                storage = _readable(read(bmc))
            _creations(
                config,
                disks,
                [replace(controller, volumes=()) for controller in storage.controllers],
            )
        if delete and not progress.get("deleted"):
            outcome = run_parts(target, {"delete": self.delete_configuration})
            return Wait({"deleted": True}, poll_after=0) if isinstance(outcome, Done) else outcome
        if "jobs" not in progress:
            with client.turn(target, self.bmcs) as bmc:
                jobs = _creations(config, disks, read(bmc).controllers)
            return Wait({**progress, "jobs": jobs, "number": 0}, poll_after=0)
        return self._run_jobs(target)

    def _run_jobs(self, target: Target) -> Outcome:
        """Run the jobs one after the other; then report the existing volumes."""
        progress = target.progress
        jobs, number = progress["jobs"], progress["number"]
        if number == len(jobs):
            with client.turn(target, self.bmcs) as bmc:
                target.report(raid_config=_raid_config(read(bmc).controllers))
            return Done()
        order = (
            Creation(jobs[number]) if jobs[number]["method"] == "POST" else Deletion(jobs[number])
        )
        run = partial(carry_out, bmcs=self.bmcs, order=order, needs_restart=order.needs_restart)
        outcome = run_parts(target, {"job": run})
        if isinstance(outcome, Done):
            return Wait({**progress, "number": number + 1, "job": {}}, poll_after=0)
        return outcome


class _Change(Order):
    """Change of one volume; job: {method, path, body, apply}."""

    def __init__(self, job: Mapping[str, Any], subject: str) -> None:
        self._job, self.subject = job, subject

    def facts(self, bmc: Connection) -> dict[str, object]:
        return {"volumes": read(bmc).paths}

    def request(self, bmc: Connection) -> Request:
        apply = self._job["apply"]
        timed = {_APPLY_TIME: apply} if apply else {}
        body = {**self._job["body"], **timed}
        return Request(self._job["method"], self._job["path"], body or None)

    def instead(
        self, request: Request, facts: Mapping[str, object], refusal: str
    ) -> Request | None:
        """Leave out OperationApplyTime if the BMC lists it and refuses it, as iDRAC 6.00.02."""
        body = dict(request.body or {})
        if "OperationApplyTime" not in refusal or body.pop(_APPLY_TIME, None) is None:
            return None
        return replace(request, body=body or None)

    def needs_restart(self, record: Mapping[str, Any]) -> bool:
        """Whether the change is applied at a restart; record: of the accepted order."""
        apply = (record["request"]["body"] or {}).get(_APPLY_TIME)
        return apply == "OnReset" or (apply is None and bool(record["paths"]))


class Creation(_Change):
    """Creation of a volume."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        super().__init__(job, f"the creation of a {job['body']['RAIDType']} volume")

    def difference(self, bmc: Connection, facts: Mapping[str, Any]) -> str:
        """Look for a new volume of the level and the drives, or one without a reported type."""
        raid = self._job["body"]["RAIDType"]
        drives = {drive_link["@odata.id"] for drive_link in self._job["body"]["Links"]["Drives"]}
        storage = read(bmc)
        new_volumes = [volume for volume in storage.volumes if volume.path not in facts["volumes"]]
        if any(
            volume.is_of(raid) and volume.drives in (frozenset(), drives) for volume in new_volumes
        ):
            return ""
        if new_volumes:
            volume = new_volumes[0]
            return f"the new volume {volume.path} is {volume.raid} of {len(volume.drives)} drives"
        # some BMCs report no type of a new volume
        controllers = [
            controller
            for controller in storage.controllers
            if controller.volumes_path == self._job["path"]
        ]
        if any(
            path not in facts["volumes"]
            for controller in controllers
            for path in controller.other_paths
        ):
            return ""
        return f"there is no new volume in {self._job['path']}"


class Deletion(_Change):
    """Deletion of a volume."""

    is_repeatable: ClassVar[bool] = True  # of the same volume

    def __init__(self, job: Mapping[str, Any]) -> None:
        super().__init__(job, f"the deletion of volume {job['path']}")

    def difference(self, bmc: Connection, facts: Mapping[str, Any]) -> str:
        storage = read(bmc)
        if self._job["path"] in storage.paths or self._job["path"] in storage.unreadable:
            return f"volume {self._job['path']} is still there"
        _readable(storage)
        return ""


def _readable(storage: Storage) -> Storage:
    """
    Return the storage if all of it can be read.

    Raises Unexpected: a part may have volumes that are not seen.
    """
    if storage.unreadable:
        parts = "; ".join(f"{path} ({reason})" for path, reason in storage.unreadable.items())
        raise Unexpected(f"the volumes cannot be listed, unreadable: {parts}"[:1000])
    return storage


def _check_disk(path: str, disk: Mapping[str, Any]) -> None:
    """
    Check a logical disk against the limits of Redfish.

    Raises InvalidDriverInfo: names the property.
    """
    level = LEVELS.get(disk["raid_level"])
    if level is None:
        raise InvalidDriverInfo(
            f"{path}/raid_level: Redfish has {', '.join(LEVELS)}, not {disk['raid_level']}"
        )
    if disk.get("interface_type") == "scsi":
        raise InvalidDriverInfo(f"{path}/interface_type: Redfish has sata and sas, not scsi")
    names = disk.get("physical_disks")
    if names is not None and not all(isinstance(drive_name, str) for drive_name in names):
        raise InvalidDriverInfo(f"{path}/physical_disks: a list of ids of drives is needed")
    if names is not None and len(set(names)) < len(names):
        raise InvalidDriverInfo(f"{path}/physical_disks: a drive is named twice")
    counts = {
        "number_of_physical_disks": disk.get("number_of_physical_disks"),
        "physical_disks": None if names is None else len(names),
    }
    for field, count in counts.items():
        if count is not None and not level.takes(count):
            raise InvalidDriverInfo(f"{path}/{field}: {level.raid} cannot be of {count} disks")


def _creations(
    config: Mapping[str, Any],
    disks: Mapping[int, raid_plan.LogicalDisk],
    controllers: Sequence[Controller],
) -> list[dict[str, Any]]:
    """Return a job for each of these logical disks of a configuration, in their order."""
    kept_volumes = frozenset(
        name
        for disk in config["logical_disks"]
        if not disk.get("share_physical_disks")
        for name in disk.get("physical_disks", ())
    )
    choices = raid_plan.choose(disks, controllers, kept_volumes)
    jobs = []
    for number, disk in disks.items():
        choice = choices[number]
        body: dict[str, object] = {
            "RAIDType": LEVELS[disk["raid_level"]].raid,
            "Links": {"Drives": [{"@odata.id": drive.path} for drive in choice.drives]},
        }
        if disk["size_gb"] != "MAX":
            body["CapacityBytes"] = disk["size_gb"] * GIB
        if "volume_name" in disk:
            body["Name"] = disk["volume_name"]
        path, apply = choice.controller.volumes_path, choice.controller.apply
        jobs.append({"method": "POST", "path": path, "body": body, "apply": apply})
    return jobs


def _deletions(storage: Storage) -> list[dict[str, object]]:
    """Return a job for each existing volume."""
    return [
        {"method": "DELETE", "path": volume.path, "body": {}, "apply": controller.apply}
        for controller in storage.controllers
        for volume in controller.volumes
    ]


def _raid_config(controllers: Sequence[Controller]) -> dict[str, object]:
    """Return the existing volumes as `raid_config` of the node."""
    disks = [
        {
            "id": volume.id,
            "name": volume.name,
            "controller": controller.name,
            "size_gb": volume.capacity // GIB,
            "raid_level": raid_plan.NAMES.get(volume.raid, volume.raid),
        }
        for controller in controllers
        for volume in controller.volumes
    ]
    return {"logical_disks": disks, "last_updated": datetime.now(UTC).isoformat()}
