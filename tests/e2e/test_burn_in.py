"""Burn-in by the real ironic-python-agent, by parameters in the commands of the service."""

import json
import subprocess

import pytest

from drivers.agent import in_band
from tests.e2e import real_agent
from tests.unit.drivers.machines import target

#: Run a burn-in of the agent with a stand-in for its programs, and print their command lines.
SCRIPT = """
import json, sys
from ironic_python_agent import config  # defines the options that the others read
from ironic_python_agent import burnin, utils
commands = []
utils.execute = lambda *command, **_: commands.append(list(map(str, command))) or ("", "")
function, document = sys.argv[1], json.load(sys.stdin)
getattr(burnin, function)(document["node"])
json.dump(commands, sys.stdout)
"""


@pytest.mark.parametrize(
    ("function", "info", "words"),
    [
        ("stress_ng_cpu", {"agent_burnin_cpu_timeout": 61, "agent_burnin_cpu_cpu": 3},
         ["--cpu 3", "--timeout 61"]),
        ("stress_ng_vm", {"agent_burnin_vm_timeout": 62, "agent_burnin_vm_vm-bytes": "7%"},
         ["--timeout 62", "--vm-bytes 7%"]),
        ("fio_network", {"agent_burnin_fio_network_config": {"role": "writer", "partner": "r1-u2"},
                         "agent_burnin_fio_network_runtime": 63},
         ["--name writer", "--runtime 63", "--name reader", "--hostname r1-u2"]),
    ],
)  # fmt: skip
def test_the_burn_in_of_the_agent_follows_driver_info(function, info, words):
    node = target(driver_info={**info, "redfish_password": "secret"})
    document = json.dumps(in_band.node_and_ports(node))
    assert "secret" not in document
    command = [real_agent.interpreter(), "-I", "-c", SCRIPT, function]
    run = subprocess.run(
        command, input=document, text=True, capture_output=True, check=True, timeout=120,
        cwd="/", **real_agent.user(),
    )  # fmt: skip
    lines = " ".join(" ".join(line) for line in json.loads(run.stdout))
    assert all(word in lines for word in words), lines
