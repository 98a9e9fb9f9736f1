"""
Installing a bootable container: interface `bootc`.

The agent pulls `instance_info/image_source` (`oci://`) from its registry, and `bootc` inside the
container installs it to the disk. Keys of `instance_info` for the agent: `bootc_authorized_keys`,
`bootc_tpm2_luks`.
"""

from base64 import b64encode

from drivers.agent import in_band
from drivers.agent.deploy import AgentDeploy
from drivers.core.conditions import Condition, conditions
from drivers.core.errors import InvalidDriverInfo
from drivers.core.steps import Outcome, Resume, step
from drivers.core.target import Target
from drivers.images import config_drive, oci, references, registries

#: Key of driver_internal_info with the reference by digest, as `prepare` found it.
CONTAINER = "bootc_container"
_AGENT_KEYS = ("bootc_authorized_keys", "bootc_tpm2_luks")


class Bootc(AgentDeploy):
    """The agent installs a container with `bootc`."""

    name = "bootc"

    def validate(self, target: Target) -> None:
        super().validate(target)
        info = target.instance_info
        reference = info.get("image_source")
        if references.scheme_of(reference) != references.OCI:
            raise InvalidDriverInfo(
                "instance_info/image_source: deploy_interface bootc needs oci://HOST/NAME:TAG"
            )
        references.readable(target.options, reference, "instance_info/image_source")
        config_drive.validate(target)
        if not isinstance(info.get("bootc_authorized_keys"), str | None):
            raise InvalidDriverInfo("instance_info/bootc_authorized_keys is not a text")
        if not isinstance(info.get("bootc_tpm2_luks"), bool | None):
            raise InvalidDriverInfo("instance_info/bootc_tpm2_luks is neither true nor false")

    @conditions(leaves=[Condition.UNWRITTEN])
    def prepare(self, target: Target) -> Outcome:
        outcome = super().prepare(target)
        container = oci.pinned(target, str(target.instance_info["image_source"]))
        target.report(driver_internal_info={CONTAINER: container, "is_whole_disk_image": True})
        return outcome

    @step(
        deploy=80, resume=Resume.PROBE,
        needs=[Condition.AGENT], leaves=[Condition.WRITTEN],
    )  # fmt: skip
    def execute_bootc_install(self, target: Target) -> Outcome:
        """Have the agent pull the container, install it, and write the config drive."""

        def params() -> dict[str, object]:
            info = target.instance_info
            login = registries.login(target, str(info["image_source"]))
            return {
                "image_source": target.driver_internal_info[CONTAINER],
                "instance_info": {key: info[key] for key in _AGENT_KEYS if key in info},
                "pull_secret": None if login is None else b64encode(login.encode()).decode(),
                "configdrive": config_drive.encoded(target),
            }

        return in_band.run_once(target, in_band.Order("standby.execute_bootc_install", params))

    def _needs_bootloader(self, target: Target) -> bool:
        return False  # bootc installs it
