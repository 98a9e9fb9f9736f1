"""
Redfish: RAID volumes.

A step runs a list of jobs, deletions and creations of volumes. Before a job is sent, the existing
volumes and tasks are recorded, so that after a crash its new volume or task is recognised and the
job is not sent twice. If a controller applies changes only at a restart, each job has a restart.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from drivers.core import raid_schema
from drivers.core.errors import InvalidDriverInfo, Refused
from drivers.core.kinds import Raid
from drivers.core.steps import Arg, Done, Outcome, Resume, Wait, run_parts, step
from drivers.core.target import Target
from drivers.redfish import client, raid_plan
from drivers.redfish.interface import Redfish
from drivers.redfish.raid_plan import GIB, LEVELS
from drivers.redfish.restart import POLL_INTERVAL, through_restart
from drivers.redfish.storage import Controller, Volume, read

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
                jobs = _deletions(read(bmc))
            return Wait({"jobs": jobs, "number": 0}, poll_after=0)
        return self._run_jobs(target)

    def _create(
        self, target: Target, config: Mapping[str, Any], root: bool, others: bool, delete: bool
    ) -> Outcome:
        progress = target.progress
        disks = raid_schema.selected(config, root=root, others=others)
        if delete and not progress:
            # plan first: a configuration that cannot be built must not delete volumes
            with client.turn(target, self.bmcs) as bmc:
                _creations(config, disks, [replace(each, volumes=()) for each in read(bmc)])
        if delete and not progress.get("deleted"):
            outcome = run_parts(target, {"delete": self.delete_configuration})
            return Wait({"deleted": True}, poll_after=0) if isinstance(outcome, Done) else outcome
        if "jobs" not in progress:
            with client.turn(target, self.bmcs) as bmc:
                jobs = _creations(config, disks, read(bmc))
            return Wait({**progress, "jobs": jobs, "number": 0}, poll_after=0)
        return self._run_jobs(target)

    def _run_jobs(self, target: Target) -> Outcome:
        """Run the jobs one after the other; then report the existing volumes."""
        progress = target.progress
        jobs, number = progress["jobs"], progress["number"]
        if number == len(jobs):
            with client.turn(target, self.bmcs) as bmc:
                target.report(raid_config=_raid_config(read(bmc)))
            return Done()
        outcome = run_parts(target, {"job": lambda part: self._run_job(part, jobs[number])})
        if isinstance(outcome, Done):
            return Wait({**progress, "number": number + 1, "job": {}}, poll_after=0)
        return outcome

    def _run_job(self, target: Target, job: Mapping[str, Any]) -> Outcome:
        """Run a job, sent once. Keys of its progress: before, ordered, restart."""
        progress = target.progress
        if "ordered" in progress:
            return self._await_job(target, job)
        with client.turn(target, self.bmcs) as bmc:
            volumes = _volumes(read(bmc))
            if "before" not in progress:
                before = {"tasks": bmc.tasks(), "volumes": [each.path for each in volumes]}
                return Wait({"before": before}, poll_after=0)
            before = progress["before"]
            if _is_done(volumes, job, before):  # an earlier attempt crashed, or lost the answer
                return Done()
            task = next((each for each in bmc.tasks() if each not in before["tasks"]), None)
            if task is None:
                target.before_order()
                task = bmc.change_volumes(job["method"], job["path"], job["body"], job["apply"])
        return Wait({**progress, "ordered": {"task": task}}, poll_after=0)

    def _await_job(self, target: Target, job: Mapping[str, Any]) -> Outcome:
        """Wait for the end of a job that was sent; restart the machine if the BMC needs that."""
        progress = target.progress
        task = progress["ordered"]["task"]

        def settled() -> bool:
            with client.turn(target, self.bmcs) as bmc:
                failure = bmc.task_failure(task) if task else None
                if failure == "":
                    return False
                if failure:
                    raise Refused(
                        f"the BMC of node {target.uuid} failed to change a volume: {failure}"
                    )
                # some BMCs report no RAIDType of a new volume, which `_is_done` needs
                if job["method"] == "POST" and (task or job["apply"] != "OnReset"):
                    return True
                return _is_done(_volumes(read(bmc)), job, progress["before"])

        if job["apply"] == "OnReset" or (task and job["apply"] is None):
            restart = partial(through_restart, order=lambda: None, settled=settled)
            return run_parts(target, {"restart": restart})
        return Done() if settled() else Wait(progress, poll_after=POLL_INTERVAL)


def _check_disk(place: str, disk: Mapping[str, Any]) -> None:
    """
    Check a logical disk against the limits of Redfish.

    Raises InvalidDriverInfo: names the property.
    """
    level = LEVELS.get(disk["raid_level"])
    if level is None:
        raise InvalidDriverInfo(
            f"{place}/raid_level: Redfish has {', '.join(LEVELS)}, not {disk['raid_level']}"
        )
    if disk.get("interface_type") == "scsi":
        raise InvalidDriverInfo(f"{place}/interface_type: Redfish has sata and sas, not scsi")
    names = disk.get("physical_disks")
    if names is not None and not all(isinstance(each, str) for each in names):
        raise InvalidDriverInfo(f"{place}/physical_disks: a list of ids of drives is needed")
    if names is not None and len(set(names)) < len(names):
        raise InvalidDriverInfo(f"{place}/physical_disks: a drive is named twice")
    counts = {
        "number_of_physical_disks": disk.get("number_of_physical_disks"),
        "physical_disks": None if names is None else len(names),
    }
    for field, count in counts.items():
        if count is not None and not level.takes(count):
            raise InvalidDriverInfo(f"{place}/{field}: {level.raid} cannot be of {count} disks")


def _creations(
    config: Mapping[str, Any],
    disks: Mapping[int, raid_plan.LogicalDisk],
    controllers: list[Controller],
) -> list[dict[str, Any]]:
    """Return a job for each of these logical disks of a configuration, in their order."""
    kept = frozenset(
        name
        for disk in config["logical_disks"]
        if not disk.get("share_physical_disks")
        for name in disk.get("physical_disks", ())
    )
    chosen = raid_plan.choose(disks, controllers, kept)
    jobs = []
    for number, disk in disks.items():
        choice = chosen[number]
        body: dict[str, Any] = {
            "RAIDType": LEVELS[disk["raid_level"]].raid,
            "Links": {"Drives": [{"@odata.id": each.path} for each in choice.drives]},
        }
        if disk["size_gb"] != "MAX":
            body["CapacityBytes"] = disk["size_gb"] * GIB
        if "volume_name" in disk:
            body["Name"] = disk["volume_name"]
        path, apply = choice.controller.volumes_path, choice.controller.apply
        jobs.append({"method": "POST", "path": path, "body": body, "apply": apply})
    return jobs


def _deletions(controllers: list[Controller]) -> list[dict[str, Any]]:
    """Return a job for each existing volume."""
    return [
        {"method": "DELETE", "path": volume.path, "body": {}, "apply": controller.apply}
        for controller in controllers
        for volume in controller.volumes
    ]


def _is_done(volumes: list[Volume], job: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether a job has had its effect: its volume is deleted, or a matching new one exists."""
    if job["method"] == "DELETE":
        return all(each.path != job["path"] for each in volumes)
    drives = {each["@odata.id"] for each in job["body"]["Links"]["Drives"]}
    return any(
        each.path not in before["volumes"]
        and each.raid == job["body"]["RAIDType"]
        and (not each.drives or each.drives == drives)
        for each in volumes
    )


def _volumes(controllers: list[Controller]) -> list[Volume]:
    return [volume for controller in controllers for volume in controller.volumes]


def _raid_config(controllers: list[Controller]) -> dict[str, Any]:
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
