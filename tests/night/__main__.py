"""
A night of work on many machines, with the commands of an operator alone (docs/night.md).

    python -m tests.night --machines 2000

The simulator and the service are those of `make demo`, with settings for many machines. Each claim is
checked: the first one that does not hold ends the night, with exit status 1.
"""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from tests.night.jobs import Night
from tests.night.shell import Differs
from workers.demo.stage import SETTINGS, DemoError, environment
from workers.demo.story import interrupt

#: Machines of one simulator: their addresses are 127.77.1.1 and above.
MOST_MACHINES = 10_000
#: The defaults, where the demo detects deaths within seconds: a busy machine is no dead one.
CALM = (
    "INGOT_CONDUCTOR_HEARTBEAT_INTERVAL", "INGOT_CONDUCTOR_HEARTBEAT_TIMEOUT",
    "INGOT_CONDUCTOR_LEASE_TTL", "INGOT_CONDUCTOR_RECONCILE_INTERVAL",
    "INGOT_CONDUCTOR_GRACEFUL_SHUTDOWN_TIMEOUT",
)  # fmt: skip
#: As many machines at a time as a wave has; simulated BMCs update their firmware in no time.
MANY = {
    "INGOT_CONDUCTOR_MAX_CONCURRENT_CLEAN": "1000",
    "INGOT_CONDUCTOR_MAX_CONCURRENT_DEPLOY": "1000",
    "INGOT_REDFISH_FIRMWARE_UPDATE_STATUS_INTERVAL": "2",
    "INGOT_REDFISH_FIRMWARE_UPDATE_VALIDATION_INTERVAL": "1",
}


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.night", description=__doc__)
    parser.add_argument("--machines", type=int, default=60)
    parser.add_argument("--pace", type=float, default=1.0, help="factor on the machines' delays")
    parser.add_argument("--wave", metavar="N|N%", default="10%", help="most machines in progress")
    arguments = parser.parse_args()
    if not 10 <= arguments.machines <= MOST_MACHINES:
        parser.error(f"--machines: from 10 to {MOST_MACHINES}")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    settings = {name: value for name, value in SETTINGS.items() if name not in CALM} | MANY
    try:
        with (
            tempfile.TemporaryDirectory(prefix="ingot-night-") as folder,
            environment(arguments.machines, arguments.pace, settings) as stage,
        ):
            night = Night(stage, Path(folder), arguments.wave)
            night.run()
            print(night.summary(), flush=True)
    except (Differs, DemoError) as error:
        sys.exit(f"night: {error}")
    except KeyboardInterrupt:
        sys.exit("night: stopped")


if __name__ == "__main__":
    main()
