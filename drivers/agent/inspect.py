"""
In-band inspection: interface `agent`. The agent boots, posts what it found, and is switched off.
One that could not post it, as nobody took it for minutes, is asked.
"""

import socket
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from drivers.agent import client, fast_track
from drivers.core.errors import HardwareError
from drivers.core.interface import Frame, Rows
from drivers.core.kinds import Inspect
from drivers.core.steps import Done, Outcome, Wait
from drivers.core.target import Target
from drivers.inspection.process import process
from drivers.inspection.subject import Subject, findings

#: Where a node keeps the addresses of its BMC while it is being inspected.
BMC_ADDRESSES = "lookup_bmc_addresses"
#: Fields of driver_info that name a BMC.
_BMC_FIELDS = ("redfish_address", "ipmi_address")

_LEAVE: Rows = (
    ("power", "power_off"),
    ("boot", "clean_up_ramdisk"),
    ("network", "remove_inspection_network"),
    ("power", "reset_if_kept_on"),
)
_LEAVE_ON: Rows = (("boot", "clean_up_ramdisk"), ("network", "remove_inspection_network"))


class AgentInspect(Inspect):
    """The agent finds out what the machine is made of."""

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
        found = super().frame(target)
        if not target.options["inspector"]["power_off"]:
            found = replace(found, after=_LEAVE_ON, on_failure=_LEAVE_ON)
        # an agent that is to be kept running stays as it is, for the next operation
        return replace(found, after=()) if fast_track.wanted(target) else found

    def begin(self, target: Target) -> Outcome:
        """Row of frames: the node can be told by what its agent will report."""
        target.report(driver_internal_info={BMC_ADDRESSES: _bmc_addresses(target)})
        if target.options["inspector"]["pre_create_ports"] and not target.material.ports:
            try:
                found = target.driver.management.mac_addresses(target)
            except HardwareError as error:  # the agent will tell them, too
                return Done({"no_ports_by_bmc": str(error)})
            subject = Subject.of(target.material, {}, {})
            for mac in found:
                subject.add_port(mac)
            target.report(findings=replace(findings(target.material, subject), inventory=None))
        return Done()

    def await_report(self, target: Target) -> Outcome:
        """
        Row of frames: the agent has posted what it found, or calls as one that could not: it looks
        its node up, and calls, only when it has been heard or has given up.
        """
        told = target.material.report is not None or target.agent.url
        return Done() if told else Wait()

    def process(self, target: Target) -> Outcome:
        """Row of frames: what was found is known of the node."""
        report = dict(target.material.report or {})
        inventory = report.pop("inventory", None) or _ask(target)
        process(target, target.options["inspector"]["hooks"], inventory, report)
        return Done()


def _ask(target: Target) -> Any:
    """What the agent says when asked: what else it collects is in its report alone."""
    command = client.run(target, "poll.get_hardware_info", {}, wait=True)
    return client.result(target, command)


def _bmc_addresses(target: Target) -> list[str]:
    """The IP addresses of the BMC; none for a name that nobody knows."""
    for field in _BMC_FIELDS:
        text = str(target.driver_info.get(field) or "")
        host = urlsplit(text if "://" in text else f"//{text}").hostname
        if host:
            try:
                found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except OSError:
                return []
            return sorted({str(address[0]) for *_, address in found})
    return []
