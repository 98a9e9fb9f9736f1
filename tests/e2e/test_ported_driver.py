"""
A driver from outside that is written in the words of the specs: found, listed, planned, and run by
real processes.
"""

import pytest

from drivers.simulator.simulator import running
from tests.support.fleet import AGENTS, Fleet, until

METADATA = "Metadata-Version: 2.1\nName: ingot-seed\nVersion: 1\n"
ENTRY_POINTS = "[ingot.hardware_types]\nseed = ingot_seed:Seed\n"
DRIVER = '''
"""Machines of Seed: Redfish, and steps in the words of the specs."""

import os

from drivers import clean_step, deploy_step, errors, post_clean_step_hook, post_deploy_step_hook
from drivers.agent.deploy import Direct
from drivers.builtin import Redfish
from drivers.redfish.management import RedfishManagement

LEVEL = {"level": {"description": "How deep", "required": True}}


def note(*words):
    with open(os.environ["SEED_DIARY"], "a") as diary:
        diary.write(" ".join(map(str, words)) + "\\n")


class SeedManagement(RedfishManagement):
    name = "seed"

    @clean_step(priority=30.5, abortable=True)
    def polish(self, task):
        note("polish")

    @clean_step(priority=0, argsinfo=LEVEL)
    def scrub(self, task, level):
        if level == "broken":
            raise errors.CleanStepFailed("the brush is broken")
        note("scrub", level)

    @deploy_step(priority=150, argsinfo={"speed": {"description": "Of fans"}})
    def set_fans(self, task, speed="slow"):
        note("set_fans", speed)

    def get_verify_steps(self, task):
        return [*super().get_verify_steps(task), {"step": "greet", "priority": 7}]

    def get_clean_steps(self, task):
        shred = {"interface": "management", "step": "shred", "priority": 44}
        return [shred, *super().get_clean_steps(task)]

    def execute_verify_step(self, task, step):
        if step["step"] != "greet":
            return super().execute_verify_step(task, step)
        note("greet")

    def execute_clean_step(self, task, step):
        if step["step"] != "shred":
            return super().execute_clean_step(task, step)
        note("shred")


class SeedDeploy(Direct):
    name = "seed"

    def get_deploy_steps(self, task):
        stamp = {"interface": "deploy", "step": "stamp", "priority": 35}
        return [*super().get_deploy_steps(task), stamp]

    def stamp(self, task):
        note("stamp", task.uuid)


@post_clean_step_hook(interface="deploy", step="measure")
def measured_in_cleaning(task, result):
    note("measured in cleaning")


@post_deploy_step_hook(interface="deploy", step="measure")
def measured_in_deploying(task, result):
    note("measured in deploying")


class Seed(Redfish):
    name = "seed"
    interfaces = {**Redfish.interfaces, "management": (SeedManagement,), "deploy": (SeedDeploy,)}
'''
PACE = {"boot_seconds": 0.3, "heartbeat_gap": 0.3, "retry_factor": 0.05, "step_seconds": 0.1}


def measure(priority):
    return [{"interface": "deploy", "step": "measure", "priority": priority}]


@pytest.fixture
def installed(tmp_path):
    """A folder as pip would leave it."""
    folder = tmp_path / "installed"
    about = folder / "ingot_seed-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(METADATA)
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    (folder / "ingot_seed.py").write_text(DRIVER)
    return folder


def test_a_driver_in_the_words_of_the_specs_is_listed_planned_and_run(tmp_path, installed):
    diary = tmp_path / "diary"
    with (
        running(machines=1, **PACE) as simulator,
        Fleet(
            tmp_path, conductors=1, PYTHONPATH=str(installed), SEED_DIARY=str(diary), **AGENTS
        ) as fleet,
    ):
        fleet.http.headers["X-OpenStack-Ironic-API-Version"] = "1.115"
        steps = {"clean": measure(33), "deploy": measure(70)}
        simulator.set_faults(0, steps=steps)
        (node,) = fleet.enrol(simulator, driver="seed")
        path = f"{fleet.url}/v1/nodes/{node}/states/provision"

        def ask(verb, state, **arguments):
            answer = fleet.http.put(path, json={"target": verb, **arguments}, timeout=30)
            assert 202 == answer.status_code, answer.text
            fleet.await_state([node], state)
            notes = diary.read_text().splitlines()
            diary.write_text("")
            return notes

        def scrub(level):
            return [{"interface": "management", "step": "scrub", "args": {"level": level}}]

        assert ["greet"] == ask("manage", "manageable")
        assert ["scrub deep"] == ask("clean", "manageable", clean_steps=scrub("deep"))
        assert [] == ask("clean", "clean failed", clean_steps=scrub("broken"))
        assert "the brush is broken" in fleet.get(f"nodes/{node}")["last_error"]
        listed = fleet.get(f"nodes/{node}/cleaning/steps")
        driver_steps = {step["step"]: step for step in listed if step["step"] in DRIVER}
        assert {"shred": 44, "measure": 33, "polish": 30.5, "scrub": 0} == {
            name: step["priority"] for name, step in driver_steps.items()
        }
        assert [{"name": "level", "description": "How deep", "required": True}] == (
            driver_steps["scrub"]["args"]
        )
        notes = ["shred", "measured in cleaning", "polish"]
        assert notes == ask("provide", "available")
        fans = {"interface": "management", "step": "set_fans", "priority": 120}
        fans["args"] = {"speed": "fast"}
        assert ["set_fans fast", "measured in deploying", f"stamp {node}"] == (
            ask("active", "active", deploy_steps=[fans])
        )
        ran = [step["step"] for step in fleet.operation(node, "active")["steps"]]
        at = [ran.index(name) for name in ("tear_down_agent", "stamp", "switch_to_tenant_network")]
        assert sorted(at) == at
        until(lambda: simulator.machines[0].runs == "instance", "its instance")
