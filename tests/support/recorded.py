"""Metrics that the test's own process records, and the answers of an exporter."""

import os
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, values
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.parser import text_string_to_metric_families

from app.metrics import recording


@contextmanager
def recording_into(folder):
    """Record metrics in this process; yield a function that returns their samples."""
    usual = values.ValueClass
    recording.prepare(folder)
    try:
        recording.start()
        yield lambda: samples_in(os.environ[recording.DIRECTORY])
    finally:
        recording.stop()
        os.environ.pop(recording.DIRECTORY, None)
        values.ValueClass = usual


def samples_in(folder):
    """Samples of all processes that record into a folder, without those that are 0."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry, str(folder))
    return _samples(registry.collect())


def samples_of(text):
    """Samples of an exporter's answer, without those that are 0."""
    return _samples(text_string_to_metric_families(text))


def _samples(families):
    """Text of a sample, such as `ingot_claims_total` or `ingot_nodes{state="x"}` -> value."""
    return {
        _text(sample): sample.value
        for family in families
        for sample in family.samples
        if sample.value and not sample.name.endswith("_bucket")
    }


def _text(sample):
    labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
    return f"{sample.name}{{{labels}}}" if labels else sample.name
