"""
Kinds of metrics: counters, levels and histograms that processes record, gauges that are read at a
scrape.

A metric is a declaration. Recording costs one comparison until `app.metrics.recording` starts.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

#: Label value of everything that a closed set of values does not have.
OTHER = "other"


class Metric:
    """
    Declaration of a metric.

    name: without the prefix. about: its meaning. labels: name -> meaning and values.
    """

    kind = ""  # Prometheus' name of the kind
    prefix = "ingot_"

    def __init__(self, name: str, about: str, labels: Mapping[str, str] | None = None) -> None:
        self.name, self.about, self.labels = self.prefix + name, about, labels or {}

    @property
    def series(self) -> tuple[str, ...]:
        """Names of the time series that Prometheus has of it."""
        return (self.name,)


class Gauge(Metric):
    """A value that the exporter reads from the database or from Redis."""

    kind = "gauge"


class Recorded(Metric):
    """A metric that processes record."""

    #: Returns the time series of label values; None while nothing is recorded.
    _find: Callable[[tuple[str, ...]], Any] | None = None

    def record_into(self, find: Callable[[tuple[str, ...]], object] | None) -> None:
        """
        Record into the series that `find` returns for label values, or record nothing without it.
        """
        self._find = find


class Counter(Recorded):
    """A number of events, which only grows."""

    kind = "counter"

    def add(self, *labels: str, count: float = 1) -> None:
        """Count events; labels: one value for each label."""
        if self._find is not None:
            self._find(labels).inc(count)

    @property
    def series(self) -> tuple[str, ...]:
        return (f"{self.name}_total",)


class Level(Recorded):
    """A number of things that processes have open now; a new process starts at 0."""

    kind = "gauge"

    def add(self, count: float) -> None:
        """Change the number of this process."""
        if self._find is not None:
            self._find(()).inc(count)


class Histogram(Recorded):
    """A distribution of durations, in seconds."""

    kind = "histogram"

    def __init__(
        self, name: str, about: str, labels: Mapping[str, str], buckets: tuple[float, ...]
    ) -> None:
        super().__init__(name, about, labels)
        self.buckets = buckets  # upper bounds in seconds, without infinity

    def observe(self, seconds: float, *labels: str) -> None:
        """Record a duration; labels: one value for each label."""
        if self._find is not None:
            self._find(labels).observe(seconds)

    @property
    def series(self) -> tuple[str, ...]:
        return tuple(f"{self.name}_{part}" for part in ("bucket", "sum", "count"))


def one_of(value: str, values: Collection[str]) -> str:
    """Return a label value if it is known, else OTHER: a metric has few time series."""
    return value if value in values else OTHER
