"""
RAID by the BMC: interface `redfish`.

A step works through a list of jobs: volumes to delete or to create. Each is ordered once: which
volumes and tasks there are is written down first, so that after a death a new one is recognised as
its own. A controller that changes volumes only at a restart gets one for each job.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from drivers.core import raid_schema
from drivers.core.errors import InvalidDriverInfo, Refused
from drivers.core.kinds import Raid
from drivers.core.steps import Arg, Done, Outcome, Resume, Wait, nest, step
from drivers.core.target import Target
from drivers.redfish import client, raid_plan
from drivers.redfish.interface import Redfish
from drivers.redfish.raid_plan import GIB, LEVELS
from drivers.redfish.restart import LOOK, through_restart
from drivers.redfish.storage import Controller, Volume, read

_FLAG = {"type": "boolean"}
_CONFIG = Arg("raid_config", "The RAID configuration", required=True, schema={"type": "object"})


class RedfishRaid(Redfish, Raid):
    """Volumes of the system's storage."""

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
        """The volumes that target_raid_config of the node asks for are there."""
        config = self.wanted(target)
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
        """The volumes of a configuration, which becomes target_raid_config, are there."""
        self.validate_raid_config(target, raid_config)
        target.report(target_raid_config=dict(raid_config))
        return self._create(
            target, raid_config, create_root_volume, create_nonroot_volumes, delete_existing
        )

    @step(clean=0, deploy=0, service=0, needs_ramdisk=False, resume=Resume.PROBE)
    def delete_configuration(self, target: Target) -> Outcome:
        """There are no RAID volumes any more."""
        if not target.progress:
            with client.turn(target, self.bmcs) as bmc:
                jobs = _deletions(read(bmc))
            return Wait({"jobs": jobs, "number": 0}, poll_after=0)
        return self._work(target)

    def _create(
        self, target: Target, config: Mapping[str, Any], root: bool, others: bool, delete: bool
    ) -> Outcome:
        progress = target.progress
        disks = raid_schema.selected(config, root=root, others=others)
        if delete and not progress:
            with client.turn(target, self.bmcs) as bmc:  # what cannot be built deletes nothing
                _creations(config, disks, [replace(each, volumes=()) for each in read(bmc)])
        if delete and not progress.get("deleted"):
            outcome = nest(self.delete_configuration(target.part("delete")), "delete", {})
            return Wait({"deleted": True}, poll_after=0) if isinstance(outcome, Done) else outcome
        if "jobs" not in progress:
            with client.turn(target, self.bmcs) as bmc:
                jobs = _creations(config, disks, read(bmc))
            return Wait({**progress, "jobs": jobs, "number": 0}, poll_after=0)
        return self._work(target)

    def _work(self, target: Target) -> Outcome:
        """Do the jobs one after the other; then report the volumes that there are."""
        progress = target.progress
        jobs, number = progress["jobs"], progress["number"]
        if number == len(jobs):
            with client.turn(target, self.bmcs) as bmc:
                target.report(raid_config=_shown(read(bmc)))
            return Done()
        outcome = nest(self._do(target.part("job"), jobs[number]), "job", progress)
        if isinstance(outcome, Done):
            return Wait({**progress, "number": number + 1, "job": {}}, poll_after=0)
        return outcome

    def _do(self, target: Target, job: Mapping[str, Any]) -> Outcome:
        """Do one job, ordered once. Its progress: before, ordered, restart."""
        progress = target.progress
        if "ordered" in progress:
            return self._settle(target, job)
        with client.turn(target, self.bmcs) as bmc:
            volumes = _volumes(read(bmc))
            if "before" not in progress:
                before = {"tasks": bmc.tasks(), "volumes": [each.path for each in volumes]}
                return Wait({"before": before}, poll_after=0)
            before = progress["before"]
            if _is_done(volumes, job, before):  # by an attempt that died, or whose answer was lost
                return Done()
            task = next((each for each in bmc.tasks() if each not in before["tasks"]), None)
            if task is None:
                target.before_order()
                task = bmc.change_volumes(job["method"], job["path"], job["body"], job["apply"])
        return Wait({**progress, "ordered": {"task": task}}, poll_after=0)

    def _settle(self, target: Target, job: Mapping[str, Any]) -> Outcome:
        """The job was ordered: wait for its end, with a restart where the BMC needs one."""
        progress = target.progress
        task = progress["ordered"]["task"]

        def settled() -> bool:
            with client.turn(target, self.bmcs) as bmc:
                failure = bmc.task_failure(task) if task else None
                if failure == "":
                    return False
                if failure:
                    raise Refused(f"the BMC of node {target.uuid} did not do it: {failure}")
                # some BMCs show no RAIDType of what they have created
                if job["method"] == "POST" and (task or job["apply"] != "OnReset"):
                    return True
                return _is_done(_volumes(read(bmc)), job, progress["before"])

        if job["apply"] == "OnReset" or (task and job["apply"] is None):
            outcome = through_restart(target.part("restart"), lambda: None, settled)
            return nest(outcome, "restart", progress)
        return Done() if settled() else Wait(progress, poll_after=LOOK)


def _check_disk(place: str, disk: Mapping[str, Any]) -> None:
    """Refuse what no BMC can be asked for. Raises InvalidDriverInfo."""
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
    """A job for each of these logical disks of a configuration, in their order."""
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
    """A job for each volume that there is."""
    return [
        {"method": "DELETE", "path": volume.path, "body": {}, "apply": controller.apply}
        for controller in controllers
        for volume in controller.volumes
    ]


def _is_done(volumes: list[Volume], job: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether a volume is gone, or one like that which was ordered is new."""
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


def _shown(controllers: list[Controller]) -> dict[str, Any]:
    """What there is, as `raid_config` of the node."""
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
