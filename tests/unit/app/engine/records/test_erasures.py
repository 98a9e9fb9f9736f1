"""Only reported successes of steps that erase all data count as erasures."""

import pytest

from app.engine.records.erasures import Erasure, Result, assess
from app.models import OperationStep

SDA = {"name": "/dev/sda", "serial": "S-1", "wwn": None, "vendor": None, "model": "M", "size": 1}
SDB = {**SDA, "name": "/dev/sdb", "serial": "S-2"}
SETTINGS = {
    "erase_skip_read_only": False,
    "shred_random_overwrite_iterations": 1,
    "shred_final_overwrite_with_zeros": True,
}


def step(result=None, *, name="erase_devices", disks=(SDA, SDB), state="done", **settings):
    evidence = {"disks": disks and list(disks), "settings": {**SETTINGS, **settings}}
    return OperationStep(
        interface="deploy", name=name, position=3, state=state, child=None, attempts=1,
        result={"result": result, "erasure": evidence} if state == "done" else None,
    )  # fmt: skip


def statuses(assessment):
    return [erasure.status for erasure in assessment.disks]


BOTH = {"/dev/sda": None, "/dev/sdb": None}


def test_a_machine_is_sanitized_if_the_agent_tells_success_for_each_disk():
    assessment = assess([step(BOTH)], [SDA, SDB], succeeded=True)
    assert (Result.SANITIZED, []) == (assessment.result, assessment.reasons)
    assert [("S-1", 3), ("S-2", 3)] == [
        (erasure.disk["serial"], erasure.step) for erasure in assessment.disks
    ]


@pytest.mark.parametrize(
    ("result", "expected", "status", "method"),
    [
        (True, Result.SANITIZED, Erasure.ERASED, None),
        ({"result": "erased", "method": "NVMe format"}, Result.SANITIZED, "erased", "NVMe format"),
        ({"result": "skipped", "method": None}, Result.NOT_SANITIZED, Erasure.NOT_ERASED, None),
        ({"result": "failed"}, Result.NOT_SANITIZED, Erasure.FAILED, None),
        ("error", Result.NOT_SANITIZED, Erasure.FAILED, None),
        (False, Result.NOT_SANITIZED, Erasure.FAILED, None),
        ("done, I believe", Result.UNKNOWN, Erasure.UNKNOWN, None),
        ({}, Result.UNKNOWN, Erasure.UNKNOWN, None),
        (["erased"], Result.UNKNOWN, Erasure.UNKNOWN, None),
        (7, Result.UNKNOWN, Erasure.UNKNOWN, None),
    ],
)
def test_words_of_the_agent_about_a_disk(result, expected, status, method):
    assessment = assess([step({**BOTH, "/dev/sdb": result})], [], succeeded=True)
    assert expected == assessment.result
    assert [Erasure.ERASED, status] == statuses(assessment)
    assert method == assessment.disks[1].method
    assert bool(assessment.reasons) == (expected is not Result.SANITIZED)


@pytest.mark.parametrize("result", [None, {}, [], "both", {"/dev/sda": None}])
def test_a_disk_without_a_result_is_unknown(result):
    assessment = assess([step(result)], [], succeeded=True)
    assert Result.UNKNOWN == assessment.result
    assert Erasure.UNKNOWN == statuses(assessment)[1]


@pytest.mark.parametrize("disks", [None, ()])
def test_without_a_list_of_disks_nothing_is_proven(disks):
    assessment = assess([step(BOTH, disks=disks)], [SDA], succeeded=True)
    assert (Result.UNKNOWN, [Erasure.UNKNOWN]) == (assessment.result, statuses(assessment))
    assert Result.UNKNOWN == assess([step(BOTH, disks=disks)], [], succeeded=True).result


@pytest.mark.parametrize(
    "settings",
    [
        {"erase_skip_read_only": True},
        {"shred_random_overwrite_iterations": 0, "shred_final_overwrite_with_zeros": False},
    ],
)
def test_settings_under_which_a_success_may_erase_nothing(settings):
    assessment = assess([step(BOTH, **settings)], [], succeeded=True)
    assert (Result.UNKNOWN, [Erasure.UNKNOWN] * 2) == (assessment.result, statuses(assessment))
    worded = step({name: {"result": "erased"} for name in BOTH}, **settings)
    assert Result.SANITIZED == assess([worded], [], succeeded=True).result


@pytest.mark.parametrize(
    ("name", "expected", "status"),
    [
        ("erase_devices_metadata", Result.NOT_SANITIZED, Erasure.METADATA),
        ("erase_devices_express", Result.UNKNOWN, Erasure.UNKNOWN),
        ("vendor_secure_erase", Result.UNKNOWN, Erasure.UNKNOWN),
        ("nvme_sanitize", Result.UNKNOWN, Erasure.UNKNOWN),
    ],
)
def test_other_steps_that_erase_prove_less(name, expected, status):
    assessment = assess([step(BOTH, name=name)], [], succeeded=True)
    assert (expected, [status] * 2) == (assessment.result, statuses(assessment))


def test_metadata_and_then_all_data_is_all_data():
    steps = [step(None, name="erase_devices_metadata"), step(BOTH)]
    assert Result.SANITIZED == assess(steps, [], succeeded=True).result
    assert Result.SANITIZED == assess(steps[::-1], [], succeeded=True).result


@pytest.mark.parametrize("name", ["burnin_cpu", "erase_pstore"])
def test_without_a_step_that_erases_the_disks_are_not_erased(name):
    assessment = assess([step(None, name=name)], [SDA], succeeded=True)
    assert (Result.NOT_SANITIZED, [Erasure.NOT_ERASED]) == (
        assessment.result,
        statuses(assessment),
    )
    assert "No step of the operation erases disks." in assessment.reasons


@pytest.mark.parametrize("state", ["failed", "aborted"])
def test_a_step_that_was_not_done_has_failed_for_all_disks(state):
    assessment = assess([step(state=state)], [SDA, SDB], succeeded=False)
    assert (Result.NOT_SANITIZED, [Erasure.FAILED] * 2) == (
        assessment.result,
        statuses(assessment),
    )


def test_a_skipped_step_is_not_done():
    assessment = assess([step(state="skipped")], [], succeeded=True)
    assert Result.NOT_SANITIZED == assessment.result


def test_an_operation_that_failed_later_has_not_sanitized():
    assessment = assess([step(BOTH)], [], succeeded=False)
    assert Result.NOT_SANITIZED == assessment.result
    assert ["The operation has not succeeded."] == assessment.reasons


def test_a_disk_of_the_last_inspection_that_is_gone_is_told():
    missing_disk = {**SDA, "serial": "S-0", "name": "/dev/sdz"}
    assessment = assess([step(BOTH)], [SDA, missing_disk], succeeded=True)
    assert (Result.UNKNOWN, Erasure.MISSING) == (assessment.result, statuses(assessment)[-1])
    assert ["Disk S-0: missing."] == assessment.reasons


def test_a_step_on_a_child_node_says_nothing_about_this_one():
    of_child = step(BOTH)
    of_child.child = "a-child"
    assert Result.NOT_SANITIZED == assess([of_child], [], succeeded=True).result
