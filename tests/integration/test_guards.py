"""The guards of a verb: precedence of their errors."""

import pytest

from app.engine import guards, verbs
from app.errors import Conflict, InMaintenance, Invalid, NodeProtected, Unavailable
from app.lifecycle.provision_states import MACHINE, VERBS, Event
from tests.integration.harness import AcmePower, Harness

WRONG = {"maintenance": True, "protected": True, "retired": True}
RESTORED = {**WRONG, "fault": "restored"}
CLEAN_FAILURE = {"maintenance": True, "fault": "clean failure"}
NODE = [guards.not_in_maintenance, guards.not_protected, guards.not_retired]


@pytest.fixture
def world(inside):
    return Harness(inside)


def test_each_verb_of_the_api_is_declared_once():
    interrupts = set(verbs.INTERRUPTS)
    assert set(VERBS.values()) == set(verbs.DECLARATIONS) | interrupts
    assert not set(verbs.DECLARATIONS) & interrupts


@pytest.mark.parametrize(
    ("verb", "state", "columns", "error"),
    [
        ("active", "available", WRONG, InMaintenance),
        ("active", "available", {"retired": True}, Conflict),
        ("rebuild", "active", WRONG, InMaintenance),
        ("rebuild", "active", {"protected": True}, NodeProtected),
        ("deleted", "active", WRONG, NodeProtected),
        ("deleted", "active", RESTORED, InMaintenance),
        ("inspect", "manageable", RESTORED, InMaintenance),
        ("adopt", "manageable", RESTORED, Conflict),
        ("provide", "manageable", RESTORED, InMaintenance),
        ("provide", "manageable", {"retired": True}, Conflict),
        ("provide", "clean failed", {**CLEAN_FAILURE, "retired": True}, Conflict),
        ("clean", "manageable", WRONG, InMaintenance),
        ("clean", "manageable", RESTORED, InMaintenance),
        ("active", "available", CLEAN_FAILURE, InMaintenance),
        ("service", "active", WRONG, InMaintenance),
        ("rescue", "active", WRONG, InMaintenance),
        ("unrescue", "rescue", WRONG, InMaintenance),
        ("abort", "service failed", {"maintenance": True}, Conflict),
    ],
)
def test_the_first_failing_guard_of_a_verb_gives_the_error(world, verb, state, columns, error):
    with pytest.raises(error) as refused:
        world.ask(world.node(state, **columns), verb)
    assert error is type(refused.value)


RETIRED = [
    (state, verb, destination)
    for verb, event in VERBS.items()
    if guards.not_retired in getattr(verbs.DECLARATIONS.get(event), "guards", ())
    for state, row in MACHINE.items()
    if event in row.moves
    for destination in ("available" if event is Event.PROVIDE else "active",)
]


@pytest.mark.parametrize(("state", "verb", "destination"), RETIRED)
def test_a_retired_node_is_told_which_state_it_cannot_enter(world, state, verb, destination):
    node = world.inside.read(world.node(state, retired=True))
    is_of_tenant = verb == "rebuild" and state != "error"
    with world.inside.runtime.reading() as session:
        candidate = guards.Candidate(session, node, verb, VERBS[verb])
        if is_of_tenant:
            guards.not_retired(candidate)
        else:
            with pytest.raises(Conflict, match=f"is retired and cannot become {destination};"):
                guards.not_retired(candidate)


def test_the_node_is_checked_before_its_conductor_and_its_driver(world, monkeypatch):
    def invalid(_self, _target):
        raise guards.HardwareError("power is wrong")

    monkeypatch.setattr(AcmePower, "validate", invalid)
    node = world.node("available", retired=True)
    with pytest.raises(Conflict):
        world.ask(node, "active")
    with pytest.raises(Unavailable):
        world.ask(world.node("available", conductor_group="elsewhere"), "active")
    with pytest.raises(Invalid, match="Failed to validate power interface"):
        world.ask(world.node("available"), "active")


def test_a_forbidden_boot_mode_is_checked_after_the_interfaces(inside, monkeypatch):
    inside.environ["INGOT_CONDUCTOR_DISALLOWED_DEPLOYMENT_BOOT_MODES"] = "bios"
    other = inside.another()
    world = Harness(other)
    node = world.node("available", instance_info={"capabilities": {"boot_mode": "bios"}})
    with pytest.raises(Invalid, match="Boot mode bios"):
        world.ask(node, "active")
    monkeypatch.setattr(
        AcmePower, "validate", lambda *_: (_ for _ in ()).throw(guards.HardwareError("no"))
    )
    with pytest.raises(Invalid, match="Failed to validate power interface"):
        world.ask(node, "active")
    other.close()


def test_a_verb_without_an_operation_needs_no_conductor(world):
    node = world.node("available", conductor_group="elsewhere")
    world.ask(node, "manage")
    assert "manageable" == world.state(node)


def test_no_verb_checks_whether_the_node_is_retired_before_its_maintenance():
    for event, declaration in verbs.DECLARATIONS.items():
        positions = [NODE.index(guard) for guard in declaration.guards if guard in NODE]
        assert positions == sorted(positions), event
        assert guards.served == declaration.before_work[0], event
    assert guards.boot_mode_allowed == verbs.DECLARATIONS[Event.DEPLOY].before_work[-1]
