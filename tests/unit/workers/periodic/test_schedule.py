"""Periodic work that takes longer than its period."""

import threading

from tests.support.fleet import until
from workers.periodic.schedule import _at_most


def test_what_is_still_being_done_is_not_begun_again():
    begun, go_on = [], threading.Event()

    def work():
        begun.append(threading.current_thread())
        go_on.wait(10)

    turn = _at_most(2, work)
    threads = [threading.Thread(target=turn) for _ in range(2)]
    for thread in threads:
        thread.start()
    until(lambda: len(begun) == 2)
    turn()
    assert threading.current_thread() not in begun
    go_on.set()
    for thread in threads:
        thread.join(10)
    turn()
    assert threading.current_thread() is begun[-1]
