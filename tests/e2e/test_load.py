"""What there is very much of: operations that wait, and machines whose power is looked at."""

from tests.bench import bench_power_sync
from tests.bench.bench_load import measure
from workers.periodic import power_sync

NODES, SECONDS, QUICK = 120, 3, 4
#: MiB that 108 more of them may cost, at most; each is a row, and a task of the waker.
GROWTH = 20
#: Threads that may be begun as they are needed; beyond them each would belong to an operation.
POOLS = 24
#: BMCs that are asked at once.
LANES = 64


def test_operations_that_wait_cost_no_threads_and_hardly_any_memory(tmp_path):
    found = measure(tmp_path, NODES, SECONDS, QUICK)
    few, *more = (each["conductor"] for each in found.needs.values())
    assert few.threads + POOLS >= max(each.threads for each in more)
    assert few.memory + GROWTH > max(each.memory for each in more)
    assert all(found.idle.keys() == each.keys() for each in found.busy.values())
    assert QUICK == len(found.delays)


def test_machines_that_never_answer_hold_up_no_others_in_a_power_sweep(monkeypatch):
    monkeypatch.setattr(power_sync, "PAGE", 50)
    monkeypatch.setattr(bench_power_sync, "SILENT", 50)
    with bench_power_sync.machines() as port, bench_power_sync.silence() as nobody:
        usual = bench_power_sync.sweep(300, port)
        lost = bench_power_sync.sweep(300, port, nobody)
    assert usual.files < LANES + 64  # one connection each
    assert lost.seconds < usual.seconds + 3 * bench_power_sync.TIMEOUT
