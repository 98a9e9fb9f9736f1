"""Names that `drivers` exports to authors of drivers."""

import json
import re
import subprocess
import sys

import drivers
from tests.support.fleet import ROOT

KINDS = {
    "Bios", "Boot", "Console", "Deploy", "Firmware", "Inspect", "Management", "Network", "Power",
    "Raid", "Rescue", "Storage", "Vendor",
}  # fmt: skip
NAMES = {
    "HardwareType", "Target", "Frame", "Inspected",
    "step", "Arg", "Retry", "Outcome", "Done", "Wait", "Failed", "Hold",
    "clean_step", "deploy_step", "passthru", "run_parts",
    "post_clean_step_hook", "post_deploy_step_hook", "post_service_step_hook",
    "Condition", "conditions",
    "errors",
    "POWER_OFF", "POWER_ON", "REBOOT", "SOFT_OFF", "SOFT_REBOOT",
}  # fmt: skip
#: Modules that drivers and their tests use besides the exported names.
ALSO = {"drivers.builtin", "drivers.generic.noop", "drivers.core.registry"}
HEAVY = {
    "aiohttp", "asyncio", "importlib.metadata", "jinja2", "pycdlib", "pyghmi", "requests", "sushy",
    "yaml",
}  # fmt: skip


def test_the_names_for_drivers_are_exactly_these():
    assert KINDS | NAMES == set(drivers.__all__)
    for name in drivers.__all__:
        assert hasattr(drivers, name)


def test_the_guide_imports_names_that_are_exported_and_few_modules():
    text = (ROOT / "docs" / "drivers.md").read_text()
    one_line = re.findall(r"^from drivers import ([^(\n]+)$", text, re.MULTILINE)
    in_brackets = re.findall(r"^from drivers import \(([^)]*)\)", text, re.MULTILINE)
    names = {name for bracket in one_line + in_brackets for name in re.findall(r"\w+", bracket)}
    assert {"HardwareType", "Power", "Target", "Wait", "errors", "step"} <= names
    assert names <= set(drivers.__all__)
    assert ALSO == set(re.findall(r"^from (drivers\.[\w.]+) import", text, re.MULTILINE))


def test_importing_the_names_loads_no_large_library():
    program = "import json, sys, drivers; print(json.dumps([*sys.modules]))"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert HEAVY.isdisjoint(json.loads(ended.stdout))
