"""Faults of machines and servers: each ends in the right state, with a last error that names it."""

import signal
from contextlib import contextmanager

from tests.lab.service import Refused

#: Seconds that the service waits for an agent that never boots.
PATIENCE = 60


def run(lab, journey):
    """Inject all faults into the life of one machine, enrolled by Redfish."""
    journey.set("--no-automated-clean")  # saves a minute per fault
    for fault in (
        wrong_password, image_server_gone, wrong_checksum, bmc_gone, agent_never_boots,
    ):  # fmt: skip
        with journey.phase(fault.__name__.replace("_", " ")):
            fault(lab, journey)


def wrong_password(_lab, journey):
    journey.set("--driver-info=redfish_password=wrong")
    with fails(journey, "manage", "enroll", "does not accept", "redfish_password"):
        journey.ask("manage")
    journey.set("--driver-info=redfish_password=secret")
    journey.manage()
    journey.ask("provide")


def image_server_gone(lab, journey):
    """The server answers the service's check of the image, but not the agent's download."""
    with (
        fails(journey, "deploy", "deploy failed", "first.qcow2"),
        at(journey, "deploy.deploy", lab.stop_images),
    ):
        journey.deploy("first")
    lab.start_images()
    journey.again()


def wrong_checksum(_lab, journey):
    with fails(journey, "deploy", "deploy failed", "checksum"):
        journey.deploy("first", checksum="0" * 64)
    journey.again()


def bmc_gone(lab, journey):
    """The BMC stops while the image is written: the machine cannot boot its new system."""
    with (
        fails(journey, "deploy", "deploy failed", "127.0.0.1"),
        at(
            journey,
            "deploy.write_image",
            lambda: lab.hypervisor.redfish.send_signal(signal.SIGSTOP),
        ),
    ):
        journey.deploy("first")
    lab.hypervisor.redfish.send_signal(signal.SIGCONT)
    journey.again()


def agent_never_boots(lab, journey):
    lab.service.stop()
    lab.service.start(patience=PATIENCE)
    arguments = f"%default% rdinit=/nowhere panic=-1 {journey.agent}"
    journey.set(f"--driver-info=kernel_append_params={arguments}")
    mark = journey.machine.mark()
    with fails(journey, "deploy", "deploy failed", "imeout"):
        journey.deploy("first")
    journey.expect_on_console("Kernel panic", mark)


@contextmanager
def at(journey, label, act):
    """Call `act` once the node is at a step."""
    end = journey.once_at(label, act)
    try:
        yield
    finally:
        end()


@contextmanager
def fails(journey, verb, state, *causes):
    """The verb fails, the node ends in this state, and its last error names the causes."""
    try:
        yield
    except Refused:
        pass
    else:
        raise AssertionError(f"{verb} of {journey.node} succeeded")
    node = journey.settled()
    assert state == node["provision_state"], node["provision_state"]
    missing = [cause for cause in causes if cause not in str(node["last_error"])]
    assert not missing, f"{missing} is not in {node['last_error']!r}"
