"""
Common part of the deploy interfaces with an agent: cleaning, servicing, rescuing, tearing down.

Subclasses add the deployment: `direct`, `custom-agent`, `ramdisk`, `anaconda`.
"""

from collections.abc import Mapping
from dataclasses import replace

from drivers.agent import burn_in, client, in_band, logs
from drivers.core import capabilities, fast_track
from drivers.core.conditions import AS_FOUND, Condition, conditions
from drivers.core.interface import Frame, Rows
from drivers.core.interface_kinds import Deploy
from drivers.core.steps import Done, Flow, Outcome
from drivers.core.target import Target

_KEEP_LOGS = ("deploy", "keep_logs")
_BOOT_AGENT = (("boot", "prepare_ramdisk"), ("power", "power_on"))
_LEAVE_CLEANING = (
    ("power", "power_off"),
    ("boot", "clean_up_ramdisk"),
    ("network", "remove_cleaning_network"),
    ("power", "reset_if_kept_on"),
)
_LEAVE_SERVICE = (
    ("power", "power_off"),
    ("boot", "clean_up_ramdisk"),
    ("network", "remove_servicing_network"),
    ("network", "configure_tenant_networks"),
    ("boot", "prepare_instance"),
    ("power", "power_on"),
)
#: Frame steps that are left out if there is nothing to attach, or the storage interface attaches
#: nothing.
_VOLUMES: Rows = (("storage", "attach_volumes"), ("storage", "detach_volumes"))
#: Frame steps that are left out while the agent keeps running (fast track).
_REBOOT: Rows = (
    ("power", "power_off"),
    ("power", "reset_if_kept_on"),
    ("boot", "clean_up_ramdisk"),
    *_BOOT_AGENT,
)


class AgentFlows(Deploy):
    """Cleaning, servicing and rescuing through the agent."""

    frames = {
        "clean": Frame(
            before=(
                ("power", "power_off"),
                ("network", "add_cleaning_network"),
                *_BOOT_AGENT,
                ("deploy", "await_clean_agent"),
            ),
            collect=("deploy", "await_clean_agent"),
            after=_LEAVE_CLEANING,
            # not powered off: the operator may want to examine the running agent
            on_failure=(
                _KEEP_LOGS,
                ("boot", "clean_up_ramdisk"),
                ("network", "remove_cleaning_network"),
            ),
            on_abort=_LEAVE_CLEANING,
        ),
        "delete": Frame(
            before=(
                ("power", "power_off"),
                ("boot", "clean_up_ramdisk"),  # of a deployment that waits for its agent
                ("storage", "detach_volumes"),
                ("boot", "clean_up_instance"),
                ("network", "unconfigure_tenant_networks"),
                ("network", "remove_provisioning_network"),
            ),
        ),
        "service": Frame(
            before=(
                ("power", "power_off"),
                ("boot", "clean_up_instance"),
                ("network", "unconfigure_tenant_networks"),
                ("network", "add_servicing_network"),
                *_BOOT_AGENT,
                ("deploy", "await_service_agent"),
            ),
            collect=("deploy", "await_service_agent"),
            after=_LEAVE_SERVICE,
            # the machine stays as it is, for the operator to examine
            on_failure=(_KEEP_LOGS,),
            on_abort=_LEAVE_SERVICE,
        ),
        "rescue": Frame(
            before=(
                ("power", "power_off"),
                ("boot", "clean_up_instance"),
                ("network", "unconfigure_tenant_networks"),
                ("network", "add_rescuing_network"),
                *_BOOT_AGENT,
                ("rescue", "rescue"),
                ("boot", "clean_up_ramdisk"),
                ("network", "remove_rescuing_network"),
                ("network", "configure_tenant_networks"),
            ),
            on_failure=(
                ("power", "power_off"),
                ("boot", "clean_up_ramdisk"),
                ("network", "remove_rescuing_network"),
            ),
        ),
        "adopt": Frame(before=(("deploy", "adopt"),)),
        "unrescue": Frame(
            before=(
                ("power", "power_off"),
                ("boot", "clean_up_ramdisk"),
                ("rescue", "unrescue"),
                # after a rescue that has failed, and has left neither its network nor the tenant's
                ("network", "remove_rescuing_network"),
                ("network", "configure_tenant_networks"),
                ("boot", "prepare_instance"),
                ("power", "power_on"),
            ),
        ),
    }
    properties = {
        "deploy_forces_oob_reboot": "true: the BMC, not the agent, powers off after a deployment",
        "agent_verify_ca": "CA certificates for the agent's certificate, unless the agent sends its"
        " certificate: PEM text, or the path of a PEM file; or true, false",
        **burn_in.PROPERTIES,
    }

    undeclared = AS_FOUND

    def validate(self, target: Target) -> None:
        capabilities.boot_mode(target)
        client.authorities_of_node(target)

    def frame(self, target: Target, flow: str) -> Frame:
        frame = super().frame(target, flow)
        if fast_track.agent_runs(target):
            frame = replace(frame, before=_without(frame.before, _REBOOT))
        if flow == Flow.CLEAN and fast_track.is_enabled(target):
            frame = replace(frame, after=_without(frame.after, _REBOOT))
        if not logs.are_kept(target, failed=True):
            frame = frame.without((_KEEP_LOGS,))
        if not (target.volume_targets and target.driver.storage.has("attach_volumes")):
            frame = frame.without(_VOLUMES)
        return frame

    @conditions(leaves=[Condition.AGENT])
    def await_clean_agent(self, target: Target) -> Outcome:
        """Frame step: wait for the agent and read its clean steps."""
        return in_band.collect(target, Flow.CLEAN)

    @conditions(leaves=[Condition.AGENT])
    def await_service_agent(self, target: Target) -> Outcome:
        """Frame step: wait for the agent and read its service steps."""
        return in_band.collect(target, Flow.SERVICE)

    def keep_logs(self, target: Target) -> Outcome:
        """Frame step: store the agent's logs."""
        return logs.keep(target)

    def stop_after_failure(self, target: Target) -> Outcome:
        """Frame step: power the machine off if `power_off_after_deploy_failure` is set."""
        if target.options["deploy"]["power_off_after_deploy_failure"]:
            return target.driver.power.power_off(target)
        return Done()

    def execute_in_band(self, target: Target, flow: Flow, step: Mapping[str, object]) -> Outcome:
        return in_band.execute(target, flow, step)


def _without(rows: Rows, left_out: Rows) -> Rows:
    return tuple(row for row in rows if row not in left_out)
