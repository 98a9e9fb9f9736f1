"""
A preview is what happens: dry runs of verbs and rollouts, the verbs of `why`, and the requests.

Each case is a random node at a random moment and a random request. It is previewed, and then done.
"""

import random
import uuid

import pytest
from sqlalchemy import select

from app.engine import transitions
from app.lifecycle.hold_kinds import HoldKind
from app.lifecycle.provision_states import MACHINE, VERBS, Kind, State, of_kind
from app.models import (
    AgentRecord,
    DeployTemplate,
    Fault,
    Hold,
    Node,
    NodeTrait,
    Operation,
    OperationStep,
    Runbook,
)

from .conftest import fault

VERB_NAMES = tuple(verb for verb in VERBS if verb not in ("deploy", "undeploy"))
IMAGE = {"image_source": "http://images/disk.raw", "image_checksum": "a" * 64}
ERASE = {"interface": "deploy", "step": "erase_devices", "priority": 10, "abortable": True}
TUNE = {"interface": "deploy", "step": "tune", "priority": 50}
CLEAN_STEPS = (
    {"interface": "vendor", "step": "log_passthrough"},
    {"interface": "bios", "step": "apply_configuration"},
    {"interface": "power", "step": "power_off"},
    {"interface": "power", "step": "reboot"},
    {"interface": "deploy", "step": "erase_devices"},
    {"interface": "raid", "step": "delete_configuration"},
)
CORE = ("deploy", "write_image", "prepare_instance_boot", "tear_down_agent", "boot_instance")
UNSETTLED = of_kind(Kind.BUSY)


class Case:
    """A random node, and a random request for it."""

    def __init__(self, api, seed):
        self.api, self.rng = api, random.Random(seed)
        self.uuid = str(uuid.UUID(int=self.rng.getrandbits(128), version=4))
        self.group = f"case-{seed}-{self.uuid[:8]}"
        self.verb = self.rng.choice(VERB_NAMES)
        self.create()
        self.arguments = self.request()

    def maybe(self, chance, value, otherwise=None):
        return value if self.rng.random() < chance else otherwise

    def create(self):
        rng = self.rng
        leading = [state for state in State if VERBS[self.verb] in MACHINE[state].moves]
        state = rng.choice(leading) if rng.random() < 0.8 else rng.choice(list(State))
        maintenance = rng.random() < 0.25
        deploy = rng.choice(("fake", "direct", "direct", "custom-agent", "ramdisk", "noop"))
        traits = self.maybe(0.2, {"traits": ["CUSTOM_T"]}, {})
        columns = {
            "provision_state": state,
            "maintenance": maintenance,
            "fault": (maintenance and rng.choice((None, *Fault))) or None,
            "retired": rng.random() < 0.15,
            "protected": rng.random() < 0.15,
            "automated_clean": rng.choice((None, True, False)),
            "deploy_interface": deploy,
            "rescue_interface": rng.choice(("fake", "agent", "no-rescue")),
            "raid_interface": rng.choice(("fake", "agent", "no-raid")),
            "instance_info": self.maybe(0.7, IMAGE, {}) | traits,
            "console_enabled": rng.random() < 0.1,
            "reservation": self.maybe(0.05, "rack-1"),
            "resource_class": self.group,
            "power_state": rng.choice((None, "power on", "power off")),
        }
        with self.api.runtime.transaction() as session:
            node = Node(uuid=self.uuid, driver="fake-hardware", **columns)
            session.add(node)
            session.flush()
            self.id = node.id
            if rng.random() < 0.5:
                session.add(NodeTrait(node_id=node.id, trait="CUSTOM_T"))
            if rng.random() < 0.2:
                kind = rng.choice(list(HoldKind))
                session.add(Hold(uuid=str(uuid.uuid4()), node_id=node.id, kind=kind, reason="r"))
            if rng.random() < 0.5:
                steps = {"clean": [ERASE], "service": [], "deploy": self.maybe(0.5, [TUNE], [])}
                session.add(AgentRecord(node_id=node.id, steps=steps))
        if not columns["reservation"] and rng.random() < 0.15:  # in the middle of an operation
            self.put({"target": rng.choice(("provide", "manage", "inspect", "active"))})

    def steps(self, pool):
        steps = self.rng.sample(pool, self.rng.randint(1, 3))
        return [{**step, "args": self.maybe(0.2, {"x": 1}, {})} for step in steps]

    def request(self):
        rng, verb = self.rng, self.verb
        if verb == "rescue":
            return {"rescue_password": "secret"}
        if verb in ("clean", "service"):
            if rng.random() < 0.2:
                return {"runbook": "CUSTOM_R"}
            options = self.maybe(0.2, {"disable_ramdisk": True}, {})
            return {f"{verb}_steps": self.steps(CLEAN_STEPS), **options}
        if verb in ("active", "rebuild") and rng.random() < 0.6:
            names = rng.sample(CORE, rng.randint(1, 2))
            steps = [
                {"interface": "deploy", "step": name, "args": {}, "priority": rng.choice((0, *range(5, 121, 5)))}
                for name in names
            ]  # fmt: skip
            if rng.random() < 0.3:
                steps.append({
                    "interface": "power", "step": rng.choice(("reboot", "power_off", "hold")),
                    "args": {}, "priority": rng.choice((10, 45, 70, 90)),
                })  # fmt: skip
            return {"deploy_steps": steps}
        return {}

    def put(self, body, query=""):
        return self.api("PUT", f"/v1/nodes/{self.uuid}/states/provision{query}", body)

    def row(self):
        with self.api.runtime.reading() as session:
            return session.get_one(Node, self.id)

    def operation(self):
        """Return the newest operation of the node and its steps; (None, []) without one."""
        with self.api.runtime.reading() as session:
            newest = select(Operation).where(Operation.node_id == self.id)
            operation = session.scalars(newest.order_by(Operation.id.desc())).first()
            if operation is None:
                return None, []
            of = select(OperationStep).where(OperationStep.operation_id == operation.id)
            return operation, list(session.scalars(of.order_by(OperationStep.position)))


def _moves(state):
    from app.lifecycle.provision_states import MACHINE

    return MACHINE[state].moves


def shown(step):
    """The fields of a step by which preview and act are compared."""
    return (
        step["interface"], step["step"], step["args"] or {}, step["priority"], step["source"],
        step["in_band"], step["child_node"], step["requires_ramdisk"],
    )  # fmt: skip


def planned(step):
    return (
        step.interface, step.name, step.args, step.priority, step.source, step.in_band,
        step.child, step.requires_ramdisk,
    )  # fmt: skip


def replanned(case, operation, steps):
    """Let the agent report the steps of its last report again; return the rows after that step."""
    (collects,) = [step for step in steps if step.collects]
    with case.api.runtime.transaction() as session:
        node = session.get_one(Node, case.id)
        live = session.get_one(Operation, operation.id)
        step = session.get_one(OperationStep, collects.id)
        problems = list(transitions._replan(session, node, live, step))
        session.flush()
        of = select(OperationStep).where(
            OperationStep.operation_id == operation.id, OperationStep.position > step.position
        )
        rows = [planned(row) for row in session.scalars(of.order_by(OperationStep.position))]
        session.rollback()
    return rows, problems


def preview(case):
    """The dry run of the verb, the explanation, and the dry run of a rollout over the node."""
    body = {"target": case.verb, **case.arguments}
    dry = case.put(body, "?dry_run=true")
    assert 200 == dry.status_code, dry.text
    explanation = case.api("GET", f"/v1/nodes/{case.uuid}/why").json
    if case.verb in ("abort", "unhold", "rescue"):
        return dry.json, explanation, None
    rollout_body = {**body, "nodes": {"resource_class": case.group}, "dry_run": True}
    rollout = case.api("POST", "/v1/rollouts", rollout_body)
    return dry.json, explanation, rollout


def check(case):
    """Preview and do a request; return its outcome."""
    row, (last_operation, _) = case.row(), case.operation()
    dry, explanation, rollout = preview(case)
    assert [] == case.api.messages
    assert row.updated_at == case.row().updated_at
    answer = case.put({"target": case.verb, **case.arguments})
    verb = case.verb
    assert (202 == answer.status_code) == dry["accepted"], (dry, answer.text)
    if not dry["accepted"]:
        reason = fault(answer)["faultstring"]
        assert [(answer.status_code, reason)] == [
            (refusal["status"], refusal["reason"]) for refusal in dry["refused"]
        ]
        if rollout is not None and rollout.status_code == 200:
            excluded = [node["reason"] for node in rollout.json["excluded_nodes"]]
            locked = row.reservation is not None and answer.status_code == 409
            assert excluded == ([] if locked else [reason])
        elif rollout is not None:
            assert 400 == rollout.status_code, rollout.text
        if verb in explanation["refused_verbs"]:
            assert explanation["refused_verbs"][verb] == reason
            assert verb not in explanation["verbs"]
        return f"refused {answer.status_code}"
    assert verb in explanation["verbs"]
    assert verb not in explanation["refused_verbs"]
    operation, steps = case.operation()
    started = operation is not None and (
        last_operation is None or operation.id != last_operation.id
    )
    reasons = [refusal["reason"] for refusal in dry["refused"]]
    if rollout is not None:
        assert 200 == rollout.status_code, rollout.text
        assert [node["reason"] for node in rollout.json["excluded_nodes"]] == (
            ["; ".join(reasons)] if reasons else []
        )
    if reasons:
        assert "; ".join(reasons) in operation.error["message"]
        assert State(case.row().provision_state) in of_kind(Kind.FAILED)
        return "failed at once"
    if not dry["steps"]:
        return "moved"
    assert started
    assert [shown(step) for step in dry["steps"]] == [planned(step) for step in steps]
    if any(step.collects for step in steps) and case.row().provision_state in UNSETTLED:
        return check_agents(case, dry, operation, steps)
    return "started"


def check_agents(case, dry, operation, steps):
    agent = dry["agent"]
    (collects,) = [step for step in steps if step.collects]
    assert collects.label == agent["after"]
    if "has never reported" in agent["summary"]:
        return "with an unknown agent"
    if case.row().provision_state == State.DELETING:
        return "with an agent after the tear-down"
    rows, problems = replanned(case, operation, steps)
    assert problems == agent["problems"]
    if not problems:
        assert rows == [shown(step) for step in agent["steps"]]
    return "with a known agent" if not problems else "fails after the report"


def run(api, seeds):
    """Check the cases of some seeds; return the number of each outcome."""
    with api.runtime.transaction() as session:
        wrong = {"interface": "bios", "step": "apply_configuration", "args": {}, "order": 1}
        session.add(Runbook(uuid=str(uuid.uuid4()), name="CUSTOM_R", traits=["CUSTOM_T"], steps=[
            {"interface": "vendor", "step": "log_passthrough", "args": {}, "order": 1},
        ]))  # fmt: skip
        session.add(DeployTemplate(uuid=str(uuid.uuid4()), name="CUSTOM_T", steps=[
            {**{key: wrong[key] for key in ("interface", "step", "args")}, "priority": 45},
        ]))  # fmt: skip
    outcomes = {}
    for seed in seeds:
        case = Case(api, seed)
        api.messages.clear()
        try:
            outcome = check(case)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {case.verb} {case.arguments} {error}") from error
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    return outcomes


def test_the_dry_run_is_the_act_for_random_nodes_requests_and_moments(api):
    outcomes = run(api, range(80))
    assert {"refused 400", "started", "moved", "failed at once"} <= outcomes.keys()


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", range(1000, 3000, 100))
def test_the_dry_run_is_the_act_in_2000_cases(api, first_seed):
    outcomes = run(api, range(first_seed, first_seed + 100))
    assert {"refused 400", "refused 409", "started", "failed at once"} <= outcomes.keys(), outcomes
