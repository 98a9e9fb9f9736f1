"""Clients of IPMI without a BMC."""

from drivers.core.target import Target

OPTIONS = {
    "ipmi": {
        "client": "pyghmi",
        "command_timeout": 5,
        "disable_boot_timeout": True,
        "cipher_suite_versions": (),
        "min_command_interval": 0,
    },
    "bmc": {"allowed_networks": (), "denied_networks": ("192.0.2.0/24",)},
    "deploy": {"default_boot_mode": "uefi"},
}
SECRET = "correct horse"


def target(**driver_info) -> Target:
    info = {"ipmi_address": "10.0.0.5", "ipmi_password": SECRET, **driver_info}
    return Target("uuid", "node", driver=None, driver_info=info, options=OPTIONS)


SINGLE = {
    "ipmi_client": "ipmitool",
    "ipmi_bridging": "single",
    "ipmi_target_channel": 7,
    "ipmi_target_address": "0x82",
}
DUAL = {**SINGLE, "ipmi_bridging": "dual", "ipmi_transit_channel": "0", "ipmi_transit_address": 36}
