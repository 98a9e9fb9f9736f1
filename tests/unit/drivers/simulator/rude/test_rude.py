"""Rude faults over raw HTTP: each behaves as its row of the table says."""

import json

import pytest

from drivers.simulator.redfish_bmc.documents import ROOT, SESSIONS, TASKS
from drivers.simulator.rude.table import ROWS
from drivers.simulator.simulator import running

from .proofs import CLOCK, IMAGE, INSERT, PROOFS, Bmc
from .transport_proofs import assert_redirect, log_in
from .update_proofs import end_of


@pytest.mark.parametrize("name", sorted(ROWS))
def test_a_fault_behaves_as_its_row_says(bmc, name):
    assert name in PROOFS, f"the fault {name} has no proof"
    proof, value = PROOFS[name]
    bmc.set_faults(**{name: value})
    proof(bmc)


# Transport


@pytest.mark.parametrize(
    ("form", "start"),
    [
        ("text", "There is"),
        ("list", '["There'),
        ("flat", '{"code":404'),
        ("null", "null"),
        ("empty", ""),
    ],
)
def test_errors_have_other_forms(bmc, form, start):
    bmc.set_faults(odd_errors={"form": form})
    answer = bmc.get(f"{ROOT}/Nothing")
    assert 404 == answer.status_code
    assert answer.text.startswith(start)
    assert bool(start) == bool(answer.text)


# Power


def test_a_power_state_can_be_absent(bmc):
    bmc.set_faults(power_state_unknown={"state": "absent"})
    assert "PowerState" not in bmc.read(bmc.system)


# Media and boot


def test_an_insert_by_task_needs_a_session_and_outlives_it(bmc):
    bmc.set_faults(media_insert_by_task={"seconds": 0.1})
    headers = {"X-Auth-Token": log_in(bmc).headers["X-Auth-Token"]}
    assert 401 == bmc.send("POST", INSERT, IMAGE, **{"X-Auth-Token": "ended"}).status_code
    assert 202 == bmc.send("POST", INSERT, IMAGE, **headers).status_code
    for path in bmc.members(SESSIONS):
        bmc.send("DELETE", path)
    CLOCK.pass_time(0.25)
    assert bmc.slot()["Inserted"]


def test_an_insert_by_task_can_fail(bmc):
    bmc.set_faults(media_insert_by_task={"seconds": 0.1, "fails": True})
    assert "Exception" == end_of(bmc, bmc.post(INSERT, IMAGE))["TaskState"]
    assert not bmc.slot()["Inserted"]


# All proofs


@pytest.mark.parametrize("name", sorted(PROOFS))
def test_a_polite_machine_has_no_fault(bmc, name):
    proof, _ = PROOFS[name]
    with pytest.raises((AssertionError, LookupError, OSError, ValueError, pytest.fail.Exception)):
        proof(bmc)


# Settings


def test_a_share_of_the_requests_is_concerned_reproducibly():
    def statuses():
        with running(machines=1, busy=0.3, seed=7) as simulator:
            bmc = Bmc(simulator.machines[0])
            return [bmc.get(TASKS).status_code for _ in range(60)]

    first_statuses = statuses()
    assert 8 < first_statuses.count(503) < 30
    assert first_statuses == statuses()


def test_faults_combine(bmc):
    bmc.set_faults(redirect_to_slash=True, pages={"size": 1}, gzip_unasked=True, not_utf8=True)
    path = f"{bmc.system}/EthernetInterfaces"
    assert_redirect(bmc.get(path), 308, f"{path}/")
    answer = bmc.get(f"{path}/")
    assert "gzip" == answer.headers["Content-Encoding"]
    document = json.loads(answer.content.decode(errors="replace"))
    assert (1, True) == (len(document["Members"]), "Members@odata.nextLink" in document)


def test_a_fault_ends_when_it_is_reset(bmc):
    bmc.set_faults(busy={"times": 1})
    assert [503, 200] == [bmc.get(TASKS).status_code for _ in range(2)]
    bmc.set_faults(busy={"times": 1})
    assert 503 == bmc.get(TASKS).status_code
    bmc.set_faults(busy=None)
    assert 200 == bmc.get(TASKS).status_code
