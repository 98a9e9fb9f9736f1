"""Third-party drivers, written against the seed specs."""

from typing import ClassVar

from drivers.builtin import FakeHardware
from drivers.core.driver import HardwareType
from drivers.core.errors import CleanStepFailed
from drivers.core.steps import clean_step, deploy_step, step
from drivers.fake.hardware import FakeManagement, FakePower


class AcmeManagement(FakeManagement):
    """Management with additional steps."""

    name = "acme"

    @clean_step(priority=20, argsinfo=[{"name": "level", "description": "how deep"}])
    def reset_bios(self, target, level="all"):
        target.report(properties={"bios_reset": level})

    @clean_step(priority=10.5, abortable=True)
    def scrub(self, target):
        """Take long."""

    @clean_step(
        priority=0,
        requires_ramdisk=False,
        argsinfo={"times": {"description": "how often", "required": True}},
    )
    def blink(self, target, times):
        """Run only on request."""

    @step(verify=2)
    def peek(self, target):
        """Run in verification."""

    @step(verify=3)
    def look(self, target):
        """Run in verification as well."""

    @deploy_step(priority=150)
    def set_fans(self, target):
        """Run before the agent boots."""


class Acme(HardwareType):
    name = "acme"
    interfaces = {**FakeHardware.interfaces, "management": (AcmeManagement,)}


def with_management(management):
    """Hardware type "ported" with this management interface."""
    interfaces = {**FakeHardware.interfaces, "management": (management,)}
    return type("Ported", (HardwareType,), {"name": "ported", "interfaces": interfaces})


class ClashingPower(FakePower):
    name = "clashing"

    @clean_step(priority=5)
    def first(self, target):
        """First of two steps with priority 5."""

    @clean_step(priority=5)
    def second(self, target):
        """Second of two steps with priority 5."""


class Clashing(HardwareType):
    name = "clashing"
    interfaces = {**FakeHardware.interfaces, "power": (ClashingPower,)}


class PortedManagement(AcmeManagement):
    """Management that lists its steps by the method of the seed specs."""

    name = "ported"
    more: ClassVar[list] = [{"interface": "management", "step": "shred", "priority": 30}]

    def get_clean_steps(self, target):
        return [*super().get_clean_steps(target)[1:], *self.more]

    def shred(self, target):
        raise CleanStepFailed("the shredder is full")


def ported(**methods):
    return with_management(type("Management", (PortedManagement,), {"name": "ported", **methods}))
