"""Resources under load: many waiting operations, and a power sync of many machines."""

import json

from tests.bench import bench_api, bench_power_sync, floor
from tests.bench.bench_load import measure
from workers.periodic import bmc_sweep

NODES, SECONDS, QUICK = 120, 3, 4
#: Most MiB of 108 more of them; each is a row, and a task of the wait monitor.
GROWTH = 20
#: Threads that may start on demand; more would be one per operation.
POOLS = 24
#: Concurrent reads of BMCs.
LANES = 64


def test_waiting_operations_cost_no_threads_and_hardly_any_memory(tmp_path):
    measurement = measure(tmp_path, NODES, SECONDS, QUICK)
    few, *larger_needs = (needs["conductor"] for needs in measurement.needs.values())
    assert few.threads + POOLS >= max(need.threads for need in larger_needs)
    assert few.memory + GROWTH > max(need.memory for need in larger_needs)
    assert all(measurement.idle.keys() == usage.keys() for usage in measurement.busy.values())
    assert QUICK == len(measurement.delays)


def test_machines_that_never_answer_do_not_delay_a_power_sync(monkeypatch):
    monkeypatch.setattr(bmc_sweep, "PAGE", 50)
    monkeypatch.setattr(bench_power_sync, "SILENT", 50)
    monkeypatch.setattr(bench_power_sync, "TIMEOUT", 6.0)  # a busy machine answers within it
    with bench_power_sync.machines() as port, bench_power_sync.silence() as silent:
        usual = bench_power_sync.sweep(300, port)
        lost = bench_power_sync.sweep(300, port, silent)
    assert usual.files < LANES + 64  # one connection each
    assert lost.seconds < usual.seconds + 3 * bench_power_sync.TIMEOUT


def test_bare_celery_runs_the_chains_that_a_lifecycle_is_compared_with():
    worker, redis = floor.measure(lengths=(2, 1), times=2, threads=2)
    assert worker > 0
    assert redis >= 0


def test_requests_are_measured_on_sqlite_and_on_postgresql_with_the_same_nodes(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(bench_api, "ROUNDS", 2)
    monkeypatch.setattr(bench_api, "ROUND", 0.01)
    with (
        bench_api.ours(tmp_path / "sqlite", bench_api.SMALL) as small,
        bench_api.on_postgresql(tmp_path / "postgresql") as other,
    ):
        lists = []
        for service in (small, other):
            bench_api.fill(service, 12)
            nodes = json.loads(service.client.ask("GET", "/v1/nodes/detail"))["nodes"]
            fields = ("name", "provision_state", "power_state", "driver_info", "extra")
            lists.append([[node[name] for name in fields] for node in nodes])
        assert 12 == len(lists[0])
        assert lists[0] == lists[1]
        costs = bench_api.measure((small, other), ("one node", "PATCH"))
    assert 4 == len(costs)
    assert all(cost.took > 0 for cost in costs.values())
