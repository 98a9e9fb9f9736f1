"""Proofs of the faults of tasks and firmware updates."""

from drivers.simulator.redfish_bmc.documents import INVENTORY, MONITORS, ROOT, TASKS

from .proofs import CLOCK, cut, proves
from .transport_proofs import log_in, status_with_token


def task_of(answer):
    assert 202 == answer.status_code
    return answer.headers["Location"].rsplit("/", 1)[-1]


def end_of(bmc, answer):
    """Wait for the end of a task; return it."""
    number = task_of(answer)
    CLOCK.pass_time(0.15)
    return bmc.read(f"{TASKS}/{number}")


@proves()
def task_ends_badly(bmc):
    task = end_of(bmc, bmc.update())
    assert ("Completed", "Critical") == (task["TaskState"], task["TaskStatus"])
    assert "verification" in task["Messages"][0]["Message"]
    assert "1.0.0" == bmc.version()


@proves()
def task_never_ends(bmc):
    assert "Running" == end_of(bmc, bmc.update())["TaskState"]
    assert "1.0.0" == bmc.version()


@proves({"reads": 2})
def task_appears_late(bmc):
    answer = bmc.update()
    paths = [f"{TASKS}/{task_of(answer)}", answer.headers["Location"], f"{TASKS}/{task_of(answer)}"]
    assert [404, 404, 200] == [bmc.get(path).status_code for path in paths]
    assert b"" == answer.content


@proves()
def task_deleted_at_end(bmc):
    answer = bmc.update()
    assert 202 == bmc.get(answer.headers["Location"]).status_code
    CLOCK.pass_time(0.15)
    paths = [f"{TASKS}/{task_of(answer)}", answer.headers["Location"]]
    assert [404, 404] == [bmc.get(path).status_code for path in paths]
    assert "9.9" == bmc.version()


@proves()
def task_deleted_midrun(bmc):
    bmc.set_faults(task_seconds=0.6)
    answer = bmc.update()
    assert 202 == bmc.get(answer.headers["Location"]).status_code
    CLOCK.pass_time(0.35)
    assert 404 == bmc.get(answer.headers["Location"]).status_code
    assert "1.0.0" == bmc.version()
    CLOCK.pass_time(0.35)
    assert "9.9" == bmc.version()


def end_of_monitor(bmc, answer):
    place = answer.headers["Location"]
    assert (202, True) == (bmc.get(place).status_code, place.startswith(MONITORS))
    CLOCK.pass_time(0.15)
    return bmc.get(place)


@proves()
def monitor_204(bmc):
    assert 204 == end_of_monitor(bmc, bmc.update()).status_code


@proves()
def monitor_200_message(bmc):
    answer = end_of_monitor(bmc, bmc.update())
    assert (200, ["error"]) == (answer.status_code, list(answer.json()))


@proves()
def monitor_error(bmc):
    answer = end_of_monitor(bmc, bmc.update())
    assert (400, True) == (answer.status_code, "not suitable" in answer.text)
    assert "1.0.0" == bmc.version()


@proves()
def monitor_only(bmc):
    answer = bmc.update()
    assert (b"", 404) == (answer.content, bmc.get(f"{TASKS}/{task_of(answer)}").status_code)
    assert 200 == end_of_monitor(bmc, answer).status_code


@proves()
def location_is_task(bmc):
    answer = bmc.update()
    assert answer.headers["Location"].startswith(f"{TASKS}/")
    assert (b"", 200) == (answer.content, bmc.get(answer.headers["Location"]).status_code)


@proves()
def location_missing(bmc):
    answer = bmc.update()
    assert (202, None) == (answer.status_code, answer.headers.get("Location"))
    assert answer.json()["TaskMonitor"].startswith(MONITORS)


@proves()
def update_without_task(bmc):
    answer = bmc.update()
    assert (200, None) == (answer.status_code, answer.headers.get("Location"))
    assert [] == bmc.members(TASKS)
    assert "1.0.0" == bmc.version()
    CLOCK.pass_time(0.15)
    assert "9.9" == bmc.version()


@proves()
def update_without_effect(bmc):
    task = end_of(bmc, bmc.update())
    assert ("Completed", "OK") == (task["TaskState"], task["TaskStatus"])
    assert "1.0.0" == bmc.version()


@proves({"seconds": 0.3})
def update_shown_late(bmc):
    assert "Completed" == end_of(bmc, bmc.update())["TaskState"]
    assert "1.0.0" == bmc.version()
    CLOCK.pass_time(0.3)
    assert "9.9" == bmc.version()


@proves()
def update_at_reset(bmc):
    assert "Completed" == end_of(bmc, bmc.update())["TaskState"]
    assert "1.0.0" == bmc.version()
    bmc.reset("On")
    assert "9.9" == bmc.version()


@proves()
def update_targets_demanded(bmc):
    statuses = [bmc.update(**changes).status_code for changes in ({"Targets": []}, {})]
    assert [400, 202] == statuses


@proves()
def update_targets_refused(bmc):
    statuses = [bmc.update(**changes).status_code for changes in ({"Targets": []}, {})]
    assert [202, 400] == statuses


@proves()
def update_unsuitable(bmc):
    answer = bmc.update()
    assert (400, True) == (answer.status_code, "not applicable" in answer.text)


@proves({"seconds": 0.3})
def bmc_restarts_after_update(bmc):
    token = log_in(bmc).headers["X-Auth-Token"]
    bmc.update()
    assert 200 == bmc.get(ROOT).status_code
    CLOCK.pass_time(0.15)
    cut(bmc.get, ROOT)
    CLOCK.pass_time(0.3)
    assert "9.9" == bmc.version()
    assert 401 == status_with_token(bmc, token)


@proves()
def second_system(bmc):
    system, neighbour = bmc.members(f"{ROOT}/Systems")
    assert (bmc.system, neighbour) == (system, bmc.read(neighbour)["@odata.id"])
    assert 3 == len([bmc.read(path) for path in bmc.members(INVENTORY)])
    bmc.update()
    assert "update firmware of the neighbour" not in what(bmc)
    bmc.update(Targets=[])
    assert "update firmware of the neighbour" in what(bmc)


def what(bmc):
    return [entry["what"] for entry in bmc.machine.log]
