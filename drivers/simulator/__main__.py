"""
The simulator as a program: `python -m drivers.simulator --machines 8 --ready-file F`.

Once all machines answer, prints one JSON line {"url", "machines"} and writes it to the ready file.
SIGTERM or Ctrl-C stops the simulator.
"""

import argparse
import asyncio
import json
import signal
from pathlib import Path
from typing import Any

from drivers.core.recording import bundle
from drivers.core.recording.bundle import BadRecording
from drivers.simulator import fault_settings
from drivers.simulator.fault_settings import BadFault
from drivers.simulator.replay import Replay
from drivers.simulator.simulator import NETWORK, Simulator


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m drivers.simulator", description=__doc__)
    parser.add_argument("--machines", type=int, default=8)
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--network", default=NETWORK, help="first two parts of all addresses (default: %(default)s)"
    )
    parser.add_argument("--username", default="admin")
    parser.add_argument("--password", default="admin")
    parser.add_argument(
        "--pxe-params",
        default="",
        help='kernel parameters of network boot: "ipa-api-url=...", or the URL of a text with them,'
        " with {mac} or {hexhyp} in it",
    )
    parser.add_argument("--ready-file", type=Path)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="a delay or fault for all machines: latency=0.05, profile=rude, ...",
    )
    parser.add_argument(
        "--faults",
        type=Path,
        metavar="FILE",
        help="faults of all and of single machines, see docs/simulator.md (TOML)",
    )
    parser.add_argument(
        "--replay",
        type=Path,
        metavar="RECORDING",
        help="in place of simulated machines, the BMC in this file of `ingot bmc record`",
    )
    return parser.parse_args()


def behaviour(settings: list[str]) -> dict[str, object]:
    """Return the settings of faults in NAME=JSON settings. A value that is not JSON is text."""
    values: dict[str, Any] = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        try:
            values[name] = json.loads(text)
        except ValueError:
            values[name] = text
    return values


def simulated(args: argparse.Namespace) -> Simulator:
    """Return the simulator of the arguments. Raises BadFault."""
    simulator = Simulator(
        args.machines,
        args.port,
        args.seed,
        username=args.username,
        password=args.password,
        pxe=args.pxe_params,
        network=args.network,
    )
    if args.faults:
        for_all, for_one = fault_settings.read(args.faults, args.machines)
        simulator.set_faults(None, **for_all)
        for number, settings in for_one.items():
            simulator.set_faults(number, **settings)
    simulator.set_faults(None, **behaviour(args.set))
    return simulator


async def serve(args: argparse.Namespace) -> None:
    """Serve simulated machines, or a recorded one. Raises BadFault, BadRecording."""
    service = Replay(bundle.load(args.replay), args.port) if args.replay else simulated(args)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with service:
        machines = [machine.describe() for machine in service.machines]
        line = json.dumps({"url": service.url, "machines": machines})
        if args.ready_file:
            part_file = args.ready_file.with_suffix(".part")
            part_file.write_text(line + "\n")
            part_file.replace(args.ready_file)
        print(line, flush=True)  # noqa: T201
        await stop.wait()


def main() -> None:
    try:
        asyncio.run(serve(arguments()))
    except (BadFault, BadRecording) as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
