"""Settings of services whose BMCs, agents, images and webhooks are on loopback: simulators of this host."""

from app.config.machine_settings import MACHINE_DENIED

#: By variable of the environment.
LOOPBACK = {
    "INGOT_AGENT_DENIED_NETWORKS": "",
    "INGOT_BMC_DENIED_NETWORKS": "",
    "INGOT_CONDUCTOR_FETCH_DENIED_NETWORKS": "",
    "INGOT_WEBHOOKS_DENIED_NETWORKS": "",
    "INGOT_WEBHOOKS_PROJECT_DENIED_NETWORKS": "",
}
#: The default networks in which no machine may be, without loopback.
OTHERS_DENIED = tuple(
    network for network in MACHINE_DENIED if network not in ("127.0.0.0/8", "::/127")
)
