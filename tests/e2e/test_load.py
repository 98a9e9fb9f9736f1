"""Operations that wait cost their conductor neither threads nor memory to speak of."""

from tests.bench.bench_load import measure

NODES, SECONDS = 120, 3
#: MiB that 108 more of them may cost, at most; each is a row, and a task of the waker.
GROWTH = 20


def test_operations_that_wait_cost_no_threads_and_hardly_any_memory(tmp_path):
    (few, few_threads), (many, many_threads), (end, end_threads), idle, busy, _ = measure(
        tmp_path, NODES, SECONDS
    )
    assert few_threads + 8 >= max(many_threads, end_threads)  # pools fill up as they are needed
    assert few + GROWTH > max(many, end)
    assert set(idle) == set(busy)
