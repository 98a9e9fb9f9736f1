"""Output of the service at its first start."""

import json

from tests.support.fleet import Fleet, until

TIE = "bios.factory_reset:5,bios.cache_bios_settings:5"


def test_the_first_start_logs_no_warning(tmp_path):
    with Fleet(tmp_path, conductors=1, forked=False) as fleet:
        with fleet.redis() as client:
            until(lambda: client.exists("ingot:epoch"), "the first run of the reconciler")
        (node,) = fleet.create_nodes(1)
        fleet.provision([node], "manage")
        fleet.await_state([node], "manageable")
        text = fleet.text()
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert "up.ready" in {line["event"] for line in lines}
    assert [] == [line for line in lines if line["level"] not in ("debug", "info")]
    assert "SecurityWarning" not in text


def test_a_conductor_logs_the_hardware_types_that_a_tie_of_priorities_refuses(tmp_path):
    with Fleet(tmp_path, conductors=1, INGOT_CONDUCTOR_CLEAN_STEP_PRIORITY_OVERRIDE=TIE) as fleet:
        refused = until(lambda: fleet.log("hardware_type.refused"), "the log entry")
        loaded = {driver["name"] for driver in fleet.get("drivers")["drivers"]}
    (reason,) = (entry["why"] for entry in refused if entry["hardware_type"] == "redfish")
    for words in ("'factory_reset'", "'cache_bios_settings'", "priority 5",
                  "[conductor]clean_step_priority_override"):  # fmt: skip
        assert words in reason
    assert {"error"} == {entry["level"] for entry in refused}
    assert "ipmi" in loaded
    assert "redfish" not in loaded


def test_a_conductor_warns_of_overrides_that_match_no_step(tmp_path):
    override = "deploy.erase_devises:4,bios.factory_reset:5,power.fly:1,deploy.erase_devices:7"
    verify = "bios.factory_reset:5"  # a step, but of another flow
    settings = {
        "INGOT_CONDUCTOR_CLEAN_STEP_PRIORITY_OVERRIDE": override,
        "INGOT_CONDUCTOR_VERIFY_STEP_PRIORITY_OVERRIDE": verify,
    }
    with Fleet(tmp_path, conductors=1, **settings) as fleet:
        lines = until(lambda: fleet.log("step_override.without_step"), "the log entries")
    clean, other = (f"[conductor]{flow}_step_priority_override" for flow in ("clean", "verify"))
    assert [
        (clean, "deploy.erase_devises", ["deploy.erase_devices"]),
        (clean, "power.fly", []),
        (other, "bios.factory_reset", []),
    ] == [(line["setting"], line["step"], line["nearest"]) for line in lines]
    assert {"warning"} == {line["level"] for line in lines}
