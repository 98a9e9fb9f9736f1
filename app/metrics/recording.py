"""
Recording of metrics: each process writes to files of its own, which the exporter adds up.

The files belong to prometheus-client's multi-process mode, in the directory that its environment
variable names. They belong to a slot and not to a process: a new process takes the lowest free slot
and continues the counters of the process that has ended, so the number of files is limited and no
counter goes back. Its levels start at 0.
"""

import fcntl
import itertools
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from app.metrics.kinds import Histogram, Level, Recorded
from app.metrics.table import METRICS
from app.observe import log

logger = log.get(__name__)

#: Environment variable with the directory of the files; unset: nothing is recorded.
DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
#: File that the processes of a directory lock together.
LOCK = "lock"
#: Kind -> bytes of a file, allocated at the start: a write to a file that cannot grow, because the
#: disk is full, would kill the process.
SIZES = {"counter": 256 << 10, "gauge_sum": 128 << 10, "histogram": 4 << 20}

_slot: int | None = None  # open lock file of this process; None while nothing is recorded


def prepare(root: Path) -> None:
    """
    Create the directory of the files of this process and those that it forks, below `root`.

    Removes the directories of processes that have ended. Raises OSError.
    """
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in root.iterdir():
        with suppress(OSError):  # it is in use, or another process removes it
            _remove_unused(folder)
    folder = Path(tempfile.mkdtemp(dir=root))
    fd = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)  # held until the last of the processes has ended
    os.environ[DIRECTORY] = str(folder)


def _remove_unused(folder: Path) -> None:
    """Remove a directory that no process uses. Raises OSError."""
    with (folder / LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)


def is_enabled() -> bool:
    """Whether this service records metrics."""
    return DIRECTORY in os.environ


def start() -> None:
    """
    Record from now on, if metrics are enabled; call it after the last fork.

    If the files cannot be created, a warning is logged, and this process records nothing.
    """
    global _slot
    if not is_enabled():
        return
    folder = Path(os.environ[DIRECTORY])
    try:
        _slot, name = _take_slot(folder)
        for kind, size in SIZES.items():
            _allocate(folder / f"{kind}_{name}.db", size)
        _record(name)
    except OSError as error:
        logger.warning("metrics.not_recorded", folder=str(folder), detail=error.strerror)


def stop() -> None:
    """Record nothing any more, and release the slot."""
    global _slot  # noqa: PLW0603
    for metric in METRICS:
        if isinstance(metric, Recorded):
            metric.record_into(None)
    if _slot is not None:
        from prometheus_client import values

        values.close_all_multiprocess_files()  # type: ignore[no-untyped-call]
        os.close(_slot)
        _slot = None


def _take_slot(folder: Path) -> tuple[int, str]:
    """Lock the lowest free slot; return its open lock file and its name. Raises OSError."""
    for number in itertools.count():
        fd = os.open(folder / f"slot-{number}", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
        else:
            return fd, str(number)
    raise AssertionError("unreachable")


def _allocate(path: Path, size: int) -> None:
    """
    Create a file with all its blocks, unless an ended process has left it. Raises OSError.

    The exporter reads a file as soon as it has its name, and fails with an empty one.
    """
    if path.exists():
        return
    unnamed = path.with_suffix(".new")
    with unnamed.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
    unnamed.replace(path)


def _record(slot: str) -> None:
    """Connect all recorded metrics to the files of a slot."""
    # here: the import takes long, and metrics may be off
    import prometheus_client
    from prometheus_client import values

    values.ValueClass = values.MultiProcessValue(lambda: slot)  # type: ignore[no-untyped-call]
    for metric in METRICS:
        if not isinstance(metric, Recorded):
            continue
        series: Any
        if isinstance(metric, Histogram):
            series = prometheus_client.Histogram(
                metric.name,
                metric.about,
                list(metric.labels),
                registry=None,
                buckets=metric.buckets,
            )
        elif isinstance(metric, Level):
            series = prometheus_client.Gauge(
                metric.name, metric.about, registry=None, multiprocess_mode="sum"
            )
            series.set(0)  # the slot may have the level of a process that was killed
        else:
            series = prometheus_client.Counter(
                metric.name, metric.about, list(metric.labels), registry=None
            )
        metric.record_into(cache(partial(_series, series)))


def _series(metric: Any, labels: tuple[str, ...]) -> Any:
    """Return the time series of a metric with these label values."""
    return metric.labels(*labels) if labels else metric
