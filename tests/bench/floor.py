"""
The floor: cost of Celery and Redis alone for chains of tasks that do nothing.

`python -m tests.bench.floor <broker url> <threads>` is the one worker that runs them, and
`python -m tests.bench.floor beat <broker url> <folder>` a bare beat. The worker is configured as a
conductor: a pool of threads, acks_late, no prefetching, no results.
"""

import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from celery import Celery, chain

from app.broker import redis_broker
from tests.bench import cpu
from workers.supervisor import redis_server

QUEUE = "floor"


def application(url):
    app = Celery("floor", broker=url)
    app.conf.update(
        task_acks_late=True,
        task_ignore_result=True,
        task_default_queue=QUEUE,
        worker_prefetch_multiplier=1,
        broker_connection_retry_on_startup=True,
    )

    @app.task(name="floor.nothing")
    def nothing():
        """Do nothing: the overhead of a step."""

    return app, nothing


def work(url, threads):
    app, _ = application(url)
    app.worker_main(
        ["worker", "--pool=threads", f"--concurrency={threads}", "--loglevel=warning",
         "--without-gossip", "--without-mingle", "--without-heartbeat"]
    )  # fmt: skip


def beat(url, folder):
    """Run a beat that sends one task every two seconds. folder: of Celery's schedule."""
    app, nothing = application(url)
    app.conf.beat_schedule = {"nothing": {"task": nothing.name, "schedule": 2.0}}
    app.Beat(schedule=f"{folder}/schedule", loglevel="warning", quiet=True).run()


@contextmanager
def running(threads):
    """Yield a Redis and a worker: (processes by name, application, its task, Redis client)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "redis").mkdir()
        socket = redis_server.socket_path(folder)
        redis = subprocess.Popen(redis_server.command(redis_server.find(), folder, socket))
        children = {"redis": redis}
        try:
            url = f"redis+socket://{socket}"
            redis_server.await_answer(url, 1, 10)
            command = [sys.executable, "-m", "tests.bench.floor", url, str(threads)]
            children["worker"] = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            app, nothing = application(url)
            yield children, app, nothing, redis_broker.client(url, 5)
        finally:
            for child in reversed(children.values()):
                child.terminate()
                child.wait()


def send(nothing, lengths, times):
    """Send one chain for each length, `times` times."""
    for _ in range(times):
        for length in lengths:
            chain(*(nothing.si() for _ in range(length))).apply_async()


def await_idle(client):
    """Wait until no message is queued or being worked on."""
    while client.llen(QUEUE) or client.hlen("unacked"):
        time.sleep(0.05)


def measure(lengths, times, threads):
    """
    Return CPU seconds of `times` lifecycles, each of one chain per length.

    They are (of the worker and of sending, of Redis).
    """
    with running(threads) as (children, app, nothing, client):
        send(nothing, lengths, 5)  # warm up
        await_idle(client)

        def used(name):
            return cpu.of_trees([children[name].pid])

        worker, redis, sending = used("worker"), used("redis"), time.process_time()
        send(nothing, lengths, times)
        sending = time.process_time() - sending
        await_idle(client)
        app.close()
        return used("worker") - worker + sending, used("redis") - redis


if __name__ == "__main__":
    if sys.argv[1] == "beat":
        beat(*sys.argv[2:])
    else:
        work(sys.argv[1], int(sys.argv[2]))
