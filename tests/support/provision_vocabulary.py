"""Frozen copy of the provision states, transitions and verbs; a new verb is added here once."""

from app.lifecycle.provision_states import Event, State

S = State

#: Ironic's states and transitions. A change of the table is repeated here on purpose.
IRONIC = """
enroll: manage -> verifying
verifying: done -> manageable, fail -> enroll
manageable: provide -> cleaning, clean -> cleaning, inspect -> inspecting, adopt -> adopting
available: deploy -> deploying, manage -> manageable
inspecting: done -> manageable, wait -> inspect wait, fail -> inspect failed
inspect wait: resume -> inspecting, done -> manageable, fail -> inspect failed, abort -> inspect failed
inspect failed: manage -> manageable, inspect -> inspecting
cleaning: done -> available, manage -> manageable, wait -> clean wait, hold -> clean hold, fail -> clean failed
clean wait: resume -> cleaning, hold -> clean hold, fail -> clean failed, abort -> clean failed
clean hold: unhold -> clean wait, abort -> clean failed
clean failed: manage -> manageable
deploying: done -> active, wait -> wait call-back, hold -> deploy hold, fail -> deploy failed
wait call-back: resume -> deploying, hold -> deploy hold, fail -> deploy failed, abort -> deploy failed, delete -> deleting
deploy hold: unhold -> wait call-back, abort -> deploy failed
deploy failed: deploy -> deploying, rebuild -> deploying, delete -> deleting
active: rebuild -> deploying, delete -> deleting, rescue -> rescuing, service -> servicing
deleting: clean -> cleaning, fail -> error
error: rebuild -> deploying, delete -> deleting
adopting: done -> active, fail -> adopt failed
adopt failed: adopt -> adopting, manage -> manageable
rescuing: done -> rescue, wait -> rescue wait, fail -> rescue failed
rescue wait: resume -> rescuing, fail -> rescue failed, abort -> rescue failed, delete -> deleting
rescue: rescue -> rescuing, unrescue -> unrescuing, delete -> deleting
rescue failed: rescue -> rescuing, unrescue -> unrescuing, delete -> deleting
unrescuing: done -> active, fail -> unrescue failed
unrescue failed: rescue -> rescuing, unrescue -> unrescuing, delete -> deleting
servicing: done -> active, wait -> service wait, hold -> service hold, fail -> service failed
service wait: resume -> servicing, hold -> service hold, fail -> service failed, abort -> service failed, delete -> deleting
service hold: service -> servicing, unhold -> service wait, fail -> service failed, abort -> service failed
service failed: service -> servicing, rescue -> rescuing, wait -> service wait, hold -> service hold, delete -> deleting, abort -> active
"""
#: Additions of the seed specs (implement-cleaning-states).
SEED = """
clean failed: provide -> cleaning, clean -> cleaning
"""
#: Additions beyond these, in the same form.
OWN = """
"""
#: `target` of PUT states/provision -> states that accept it.
ACCEPTED = {
    "active": {S.AVAILABLE, S.DEPLOY_FAIL},
    "rebuild": {S.ACTIVE, S.DEPLOY_FAIL, S.ERROR},
    "deleted": {
        S.ACTIVE, S.DEPLOY_WAIT, S.DEPLOY_FAIL, S.ERROR, S.RESCUE, S.RESCUE_WAIT, S.RESCUE_FAIL,
        S.UNRESCUE_FAIL, S.SERVICE_FAIL, S.SERVICE_WAIT,
    },
    "manage": {S.ENROLL, S.AVAILABLE, S.CLEAN_FAIL, S.INSPECT_FAIL, S.ADOPT_FAIL},
    "provide": {S.MANAGEABLE, S.CLEAN_FAIL},
    "inspect": {S.MANAGEABLE, S.INSPECT_FAIL},
    "abort": {
        S.CLEAN_WAIT, S.CLEAN_HOLD, S.RESCUE_WAIT, S.INSPECT_WAIT, S.DEPLOY_WAIT, S.DEPLOY_HOLD,
        S.SERVICE_WAIT, S.SERVICE_HOLD, S.SERVICE_FAIL,
    },
    "clean": {S.MANAGEABLE, S.CLEAN_FAIL},
    "adopt": {S.MANAGEABLE, S.ADOPT_FAIL},
    "rescue": {S.ACTIVE, S.RESCUE, S.RESCUE_FAIL, S.UNRESCUE_FAIL, S.SERVICE_FAIL},
    "unrescue": {S.RESCUE, S.RESCUE_FAIL, S.UNRESCUE_FAIL},
    "unhold": {S.CLEAN_HOLD, S.DEPLOY_HOLD, S.SERVICE_HOLD},
    "service": {S.ACTIVE, S.SERVICE_HOLD, S.SERVICE_FAIL},
}  # fmt: skip
TARGETS = {
    S.MANAGEABLE: {S.VERIFYING, S.INSPECTING, S.INSPECT_WAIT, S.INSPECT_FAIL},
    S.AVAILABLE: {S.CLEANING, S.CLEAN_WAIT, S.CLEAN_HOLD, S.CLEAN_FAIL, S.DELETING},
    S.ACTIVE: {
        S.DEPLOYING, S.DEPLOY_WAIT, S.DEPLOY_HOLD, S.DEPLOY_FAIL, S.ADOPTING, S.ADOPT_FAIL,
        S.UNRESCUING, S.UNRESCUE_FAIL, S.SERVICING, S.SERVICE_WAIT, S.SERVICE_HOLD, S.SERVICE_FAIL,
    },
    S.RESCUE: {S.RESCUING, S.RESCUE_WAIT, S.RESCUE_FAIL},
}  # fmt: skip


def parse(table):
    """(state, event) -> next state."""
    transitions = {}
    for line in table.strip().splitlines():
        state, moves = line.split(": ")
        for move_ in moves.split(", "):
            event, next_state = move_.split(" -> ")
            transitions[State(state), Event(event)] = State(next_state)
    return transitions


FROZEN = {**parse(IRONIC), **parse(SEED), **parse(OWN)}
#: States without a target: nothing is under way.
STABLE = {S.ENROLL, S.MANAGEABLE, S.AVAILABLE, S.ACTIVE, S.ERROR, S.RESCUE}
#: Kind of operation -> its event type in the history, Ironic's where Ironic has one.
EVENT_TYPES = {
    "manage": "verify", "provide": "cleaning", "clean": "cleaning", "active": "deploying",
    "rebuild": "deploying", "deleted": "unprovision", "inspect": "introspection",
    "discovery": "introspection", "adopt": "adoption", "service": "servicing",
    "rescue": "rescue", "unrescue": "rescue", "power": "conductor", "boot_mode": "conductor",
    "secure_boot": "conductor", "vmedia": "conductor", "vendor": "conductor",
    "console": "console", "refresh": "refresh",
}  # fmt: skip

#: Verb -> minor version that introduced it.
SINCE = {
    "manage": 4, "provide": 4, "inspect": 6, "abort": 13, "clean": 15, "adopt": 17, "rescue": 38,
    "unrescue": 38, "deploy": 73, "undeploy": 73, "unhold": 85, "service": 87,
}  # fmt: skip
#: Second name of a verb -> its name in ACCEPTED.
ALIASES = {"deploy": "active", "undeploy": "deleted"}
