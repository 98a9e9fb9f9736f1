"""
Orders to BMCs whose documents lose or change properties, and that answer any request with any status.

Each order ends in a typed outcome with the right verb; it is carried out once, and success is what
the machine's state shows.
"""

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drivers.core.errors import HardwareError
from drivers.core.steps import Done, Failed, Wait
from drivers.simulator.documents import MANAGER, ROOT, STORAGE, SYSTEM
from tests.unit.drivers.redfish.scripted import LOST, TASK, UPDATE, ScriptedBmc, error, run, task
from tests.unit.drivers.redfish.test_documents import GONE, VALUES, WHOLES, changed, pointers
from tests.unit.drivers.redfish.test_volume_orders import VOLUMES, RaidBmc

BUSY = (409, 423, 429, 503)
#: Statuses that say that nothing was done.
REFUSED = (400, 403, 404, 405, 406, 410, 412, 415, 428, 501, 505)
STATUSES = (200, 201, 202, 204, 304, *REFUSED, 401, *BUSY, 500, 502, 504, LOST)
LOGIN = f"{ROOT}/SessionService"


@dataclass
class Rude(ScriptedBmc):
    """
    number, count: the first request that gets the status, and how many do. performs: whether the
    BMC carries these out nevertheless.
    """

    number: int = -1
    count: int = 0
    status: int | str = 0
    performs: bool = False
    requests: int = 0
    effects: list = field(default_factory=list)  # orders that were carried out
    lies: list = field(default_factory=list)  # statuses of those of them that were answered rudely
    running: int = 0  # reads of the task that show it running
    violations: list = field(default_factory=list)  # resets during an update

    def answer(self, method, path, headers, body=b""):
        self.requests += 1
        is_rude = self.number <= self.requests - 1 < self.number + self.count
        # the end that a monitor tells is the BMC's word
        is_word = method == "GET" and TASK in path and self.status in (200, 201, 204)
        if not is_rude or is_word:
            return self.polite(method, path, headers, body)
        if self.performs and method != "GET":
            before = len(self.effects)
            self.polite(method, path, headers, body)
            if len(self.effects) > before:
                self.lies.append(self.status)
        if self.status == LOST:
            self.lose()
        document = error(self.status, "rude")[2] if self.status >= 400 else {}
        body = b"" if self.status in (204, 304) else json.dumps(document).encode()
        return self.status, body, {}

    def polite(self, method, path, headers, body):
        before = len(self.orders)
        answered = super().answer(method, path, headers, body)
        if len(self.orders) > before and answered[0] < 300:
            self.effects.append(path)
        return answered

    def _reset(self, kind):
        if self.running:
            self.violations.append(kind)
        return super()._reset(kind)


class FirmwareBmc(Rude):
    def prepare(self):
        self.more[f"{ROOT}/TaskService/Tasks"] = {"Members": []}
        self.scripts["POST", UPDATE] = [self.start]
        return run_of("firmware", "update", settings=[
            {"component": "bios", "url": "http://images/1.1.0.bin", "version": "1.1.0"}
        ])  # fmt: skip

    def start(self):
        self.running = 2
        self.more[f"{ROOT}/TaskService/Tasks"]["Members"] = [{"@odata.id": TASK}]
        self.more[TASK] = task("Running", "OK", Payload={"TargetUri": UPDATE})[2]
        return 202, {"Location": TASK}, self.more[TASK]

    def polite(self, method, path, headers, body):
        if path == TASK and self.running:
            self.running -= 1
            if not self.running:
                self.more[TASK] = task("Completed")[2]
                self.machine.firmware["BIOS"] = "1.1.0"
        return super().polite(method, path, headers, body)

    def is_right(self):
        return self.machine.firmware["BIOS"] == "1.1.0"


class BiosBmc(Rude):
    def prepare(self):
        return run_of("bios", "apply_configuration", settings=[{"name": "NumLock", "value": "Off"}])

    def is_right(self):
        return self.machine.bios["NumLock"] == "Off"


class VolumeBmc(RaidBmc):
    collection = {"@Redfish.OperationApplyTimeSupport": {"SupportedValues": ["Immediate"]}}

    def is_right(self):
        return not self.own


class DeletionBmc(Rude, VolumeBmc):
    def prepare(self):
        self.add("v", RAIDType="RAID1")
        return run_of("raid", "delete_configuration")


class CreationBmc(Rude, VolumeBmc):
    def prepare(self):
        config = {"logical_disks": [{"raid_level": "1", "size_gb": 10, "is_root_volume": True}]}
        return run_of("raid", "apply_configuration", raid_config=config)

    def is_right(self):
        return len(self.own) == 1


#: BMC -> most effects: a deletion and a setting may be repeated, see `Order.is_repeatable`
KINDS = {FirmwareBmc: 1, CreationBmc: 1, DeletionBmc: 2, BiosBmc: 2}


def run_of(kind, step, **args):
    return lambda node: run(node, kind, step, polls=500, **args)


def try_(kind, changes=(), **rudeness):
    """Run the order against a rude BMC; return (BMC, outcome)."""
    with pytest.MonkeyPatch.context() as patch:
        bmc = kind(**rudeness).install(patch)
        bmc.__post_init__()
        step = bmc.prepare()
        bmc.changes |= dict(changes)
        outcome, _ = step(bmc.node(uuid=bmc.machine.uuid, interfaces={"raid": "redfish"}))
    return bmc, outcome


def judge(kind, bmc, outcome):
    said = str(getattr(outcome, "reason", outcome))
    orders = [path for path in bmc.effects if not path.endswith(("Reset", "Sessions"))]
    assert isinstance(outcome, Done | Failed | HardwareError | Wait), outcome
    assert [] == bmc.violations, said
    assert len(orders) <= KINDS[kind], (orders, said)
    if isinstance(outcome, Done):
        assert bmc.is_right(), outcome
    if orders and not set(bmc.lies).intersection((*REFUSED, *BUSY, 401)):
        assert "was not ordered" not in said
    if not orders and isinstance(outcome, Failed):
        assert "ordered" in said, said


@pytest.mark.parametrize("kind", KINDS)
def test_a_polite_bmc_ends_well(kind):
    bmc, outcome = try_(kind)
    assert isinstance(outcome, Done)
    judge(kind, bmc, outcome)
    assert bmc.is_right()


@pytest.mark.parametrize("kind", KINDS)
def test_any_request_may_be_answered_with_any_status(kind):
    requests = try_(kind)[0].requests

    @settings(
        derandomize=True, database=None, deadline=None, max_examples=60,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(
        st.integers(0, requests - 1), st.sampled_from([1, 2, 5, 10**6]), st.sampled_from(STATUSES),
        st.booleans(),
    )  # fmt: skip
    def rude(number, count, status, performs):
        lies = status in (*BUSY, 401)  # an order is sent again after these
        bmc, outcome = try_(
            kind, number=number, count=count, status=status, performs=performs and not lies
        )
        judge(kind, bmc, outcome)

    rude()


def documents(kind):
    """Return (path, pointer) of all properties of the documents that an order reads."""
    bmc, _ = try_(kind)
    known = {**bmc.documents(), **bmc.more}
    asked = {path.rstrip("/").replace(bmc.machine.uuid, "{id}") for _, path in bmc.asked}
    read = [path for path in sorted(asked & known.keys()) if LOGIN not in path]
    return [
        (path, pointer)
        for path in read
        for pointer in pointers(json.loads(json.dumps(known[path])))
    ]


#: Properties whose absence is legitimate, or which alone tell the state.
TELLING = {
    (STORAGE, ("Volumes",)),  # controllers without volumes
    # counts of members are optional, and often wrong
    (VOLUMES, ("Members",)),
    (f"{SYSTEM}/Storage", ("Members",)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_any_property_of_any_document_may_be_missing_or_of_another_type(kind):
    places = [
        (path, pointer)
        for path, pointer in documents(kind)
        if (path, pointer) not in TELLING and MANAGER not in path
    ]

    @settings(
        derandomize=True, database=None, deadline=None, max_examples=60,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(
        st.one_of(
            st.tuples(st.sampled_from(places), st.sampled_from((GONE, *VALUES))),
            st.tuples(
                st.sampled_from(sorted({(path, ()) for path, _ in places})),
                st.sampled_from(WHOLES),
            ),
        )
    )
    def malformed(drawn):
        (path, pointer), value = drawn
        whole = None if value is None else lambda _: value
        change = changed(pointer, value) if pointer else whole
        bmc, outcome = try_(kind, {path: change}.items())
        judge(kind, bmc, outcome)

    malformed()


def test_the_system_is_read():
    assert any(path == SYSTEM for path, _ in documents(FirmwareBmc))
