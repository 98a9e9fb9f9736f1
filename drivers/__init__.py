"""
Public names for drivers; docs/drivers.md shows their use.

The other modules of this package are internal and may change. A driver that needs one of them
imports it by its path.
"""

from drivers.agent.step_hooks import (
    post_clean_step_hook,
    post_deploy_step_hook,
    post_service_step_hook,
)
from drivers.core import errors
from drivers.core.conditions import Condition, conditions
from drivers.core.driver import HardwareType
from drivers.core.interface import Frame
from drivers.core.interface_kinds import (
    POWER_OFF,
    POWER_ON,
    REBOOT,
    SOFT_OFF,
    SOFT_REBOOT,
    Bios,
    Boot,
    Console,
    Deploy,
    Firmware,
    Inspect,
    Management,
    Network,
    Power,
    Raid,
    Rescue,
    Storage,
    Vendor,
)
from drivers.core.passthru import passthru
from drivers.core.steps import (
    Arg,
    Done,
    Failed,
    Hold,
    Outcome,
    Retry,
    Wait,
    clean_step,
    deploy_step,
    step,
)
from drivers.core.target import Inspected, Target, run_parts

__all__ = [
    "POWER_OFF",
    "POWER_ON",
    "REBOOT",
    "SOFT_OFF",
    "SOFT_REBOOT",
    "Arg",
    "Bios",
    "Boot",
    "Condition",
    "Console",
    "Deploy",
    "Done",
    "Failed",
    "Firmware",
    "Frame",
    "HardwareType",
    "Hold",
    "Inspect",
    "Inspected",
    "Management",
    "Network",
    "Outcome",
    "Power",
    "Raid",
    "Rescue",
    "Retry",
    "Storage",
    "Target",
    "Vendor",
    "Wait",
    "clean_step",
    "conditions",
    "deploy_step",
    "errors",
    "passthru",
    "post_clean_step_hook",
    "post_deploy_step_hook",
    "post_service_step_hook",
    "run_parts",
    "step",
]
