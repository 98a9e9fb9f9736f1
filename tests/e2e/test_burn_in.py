"""Burn-in by the real ironic-python-agent, by parameters in the commands of the service."""

import json
import re
import subprocess
import tempfile
from pathlib import Path

import pytest

from app.inventory import benchmarks
from drivers.agent import in_band
from tests.e2e import real_agent
from tests.support.fleet import ROOT
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


#: Run a step of the hardware manager of the documentation, with files in place of its programs.
MANAGER = """
import json, sys
from ironic_python_agent import config  # defines the options that the others read
from ironic_python_agent import burnin, utils
document = json.load(sys.stdin)
space = {"__name__": "manager"}
exec(document["source"], space)
space["FIO"] = space["STRESS"] = document["file"]
burnin.hardware.list_all_block_devices = lambda: []
commands = []

def execute(*command, **_):
    commands.append(" ".join(map(str, command)))
    with open(document["file"], "w") as file:
        file.write(document["output"])
    return "", ""

utils.execute = execute
manager = space["MeasuredBurnIn"]()
steps = [step["step"] for step in manager.get_clean_steps({}, [])]
result = getattr(manager, document["step"])(document["node"], [])
json.dump({"steps": steps, "result": result, "commands": commands}, sys.stdout)
"""
FIO = {"jobs": [
    {"jobname": "/dev/sda", "read": {"bw_bytes": 512_700_000}, "write": {"bw_bytes": 500_000_000}},
    {"jobname": "/dev/sdb", "read": {"bw_bytes": 600_000_000}, "write": {"bw_bytes": 478_200_000}},
]}  # fmt: skip
STRESS = """\
stress-ng: info:  [7] setting to a 60 second run per stressor
stress-ng: metrc: [7] stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/s
stress-ng: metrc: [7]                           (secs)    (secs)    (secs)   (real time) (usr+sys time)
stress-ng: metrc: [7] cpu              350082     60.00    239.50      0.02      5834.71        1461.60
"""


@pytest.mark.parametrize(
    ("step", "output", "metrics", "words"),
    [
        ("burnin_disk", json.dumps(FIO),
         {"disk.read": {"value": 512.7, "unit": "MB/s"},
          "disk.write": {"value": 478.2, "unit": "MB/s"}}, "--runtime 5 "),
        ("burnin_cpu", STRESS, {"stress.cpu": {"value": 5834.71, "unit": "ops/s"}}, "--cpu 3 "),
    ],
)  # fmt: skip
def test_the_documented_hardware_manager_returns_the_numbers_of_its_programs(
    step, output, metrics, words
):
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    (source,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    info = {"agent_burnin_cpu_cpu": 3, "agent_burnin_fio_disk_runtime": 5}
    # the agent has a user of its own, who cannot enter folders of pytest
    with tempfile.TemporaryDirectory(prefix="ingot-machine-") as folder:
        Path(folder).chmod(0o777)
        path = f"{folder}/output"
        document = {
            "source": source, "step": step, "output": output, "file": path,
            "node": in_band.node_and_ports(target(driver_info=info))["node"],
        }  # fmt: skip
        run = subprocess.run(
            [real_agent.interpreter(), "-I", "-c", MANAGER],
            input=json.dumps(document), text=True, capture_output=True, check=False, timeout=120,
            cwd="/", **real_agent.user(),
        )  # fmt: skip
    assert 0 == run.returncode, run.stderr
    answer = json.loads(run.stdout)
    assert ({"metrics": metrics}, True) == (answer["result"], step in answer["steps"])
    assert words in answer["commands"][0]
    assert path in answer["commands"][0]
    assert list(metrics) == [number.metric for number in benchmarks.cleaned(metrics)]
