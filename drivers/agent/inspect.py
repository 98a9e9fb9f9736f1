"""
In-band inspection: interface `agent`.

The agent boots and posts its report; then the machine is powered off. An agent that could not post
its report sends heartbeats instead, and is asked for its inventory.
"""

import socket
from dataclasses import replace
from urllib.parse import urlsplit

from drivers.agent import client
from drivers.core import fast_track
from drivers.core.errors import HardwareError
from drivers.core.interface import Frame, Rows
from drivers.core.interface_kinds import Inspect
from drivers.core.steps import Done, Outcome, Wait
from drivers.core.target import Inspected, Target

#: Fields of driver_info with the address of a BMC.
_BMC_FIELDS = ("redfish_address", "ipmi_address")

_LEAVE: Rows = (
    ("power", "power_off"),
    ("boot", "clean_up_ramdisk"),
    ("network", "remove_inspection_network"),
    ("power", "reset_if_kept_on"),
)
_LEAVE_ON: Rows = (("boot", "clean_up_ramdisk"), ("network", "remove_inspection_network"))


class AgentInspect(Inspect):
    """Inspects the machine through the agent."""

    name = "agent"

    frames = {
        "inspect": Frame(
            before=(
                ("inspect", "begin"),
                ("power", "power_off"),
                ("network", "add_inspection_network"),
                ("boot", "prepare_ramdisk"),
                ("power", "power_on"),
                ("inspect", "await_report"),
                ("inspect", "process"),
            ),
            after=_LEAVE,
            on_failure=_LEAVE,
            on_abort=_LEAVE,
        )
    }

    def validate(self, target: Target) -> None:
        if target.options["inspector"]["require_managed_boot"]:
            target.driver.boot.validate(target)

    def frame(self, target: Target) -> Frame:
        frame = super().frame(target)
        if not target.options["inspector"]["power_off"]:
            frame = replace(frame, after=_LEAVE_ON, on_failure=_LEAVE_ON)
        # with fast track the agent keeps running for the next operation
        return replace(frame, after=()) if fast_track.is_enabled(target) else frame

    def begin(self, target: Target) -> Outcome:
        """
        Frame step: report the BMC's addresses, and the MAC addresses it lists for new ports.
        """
        target.report(driver_internal_info={self.BMC_ADDRESSES: _bmc_addresses(target)})
        if target.options["inspector"]["pre_create_ports"] and not target.material.ports:
            try:
                target.report(addresses=target.driver.management.mac_addresses(target))
            except HardwareError as error:  # the agent's report has the addresses, too
                return Done({"no_ports_by_bmc": str(error)})
        return Done()

    def await_report(self, target: Target) -> Outcome:
        """
        Frame step: wait for the agent's report, or for a heartbeat.

        The agent looks its node up and sends heartbeats only after its report was accepted, or
        after it has given up posting it.
        """
        heard = target.material.report is not None or target.agent.url
        return Done() if heard else Wait()

    def process(self, target: Target) -> Outcome:
        """Frame step: pass the agent's report to the service's hooks and rules."""
        report = dict(target.material.report or {})
        inventory = report.pop("inventory", None) or client.inventory(target)
        hooks = target.options["inspector"]["hooks"]
        target.report(inspected=Inspected(inventory, report, hooks))
        return Done()


def _bmc_addresses(target: Target) -> list[str]:
    """Return the IP addresses of the BMC; none if its host name cannot be resolved."""
    for field in _BMC_FIELDS:
        text = str(target.driver_info.get(field) or "")
        host = urlsplit(text if "://" in text else f"//{text}").hostname
        if host:
            try:
                address_infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except OSError:
                return []
            return sorted({str(address[0]) for *_, address in address_infos})
    return []
