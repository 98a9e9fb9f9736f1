"""Recording: nothing while metrics are off; sums over processes, which outlive each of them."""

import os
from pathlib import Path

import pytest

from app.metrics import recording
from app.metrics.table import API_REQUESTS, CLAIMS, EVENT_STREAMS, REFUSALS
from tests.support.recorded import recording_into, samples_in


@pytest.fixture
def samples(tmp_path):
    with recording_into(tmp_path) as read:
        yield read


def child(work):
    """Run `work` in a forked process that is killed afterwards, without any cleanup."""
    pid = os.fork()
    if not pid:
        work()
        os._exit(0)
    assert 0 == os.waitpid(pid, 0)[1]


def test_nothing_is_recorded_while_metrics_are_off():
    recording.start()
    CLAIMS.add()
    API_REQUESTS.observe(1.0, "/", "GET", "2xx")
    assert not recording.is_enabled()


def test_values_are_counted_by_their_labels(samples):
    CLAIMS.add()
    REFUSALS.add("lease", count=2)
    REFUSALS.add("fence")
    API_REQUESTS.observe(0.25, "/v1/nodes", "GET", "2xx")
    API_REQUESTS.observe(0.5, "/v1/nodes", "GET", "2xx")
    assert {
        "ingot_claims_total": 1,
        'ingot_refusals_total{cause="lease"}': 2,
        'ingot_refusals_total{cause="fence"}': 1,
        'ingot_api_request_seconds_count{method="GET",route="/v1/nodes",status="2xx"}': 2,
        'ingot_api_request_seconds_sum{method="GET",route="/v1/nodes",status="2xx"}': 0.75,
    } == samples()


def test_a_new_process_continues_the_counters_of_one_that_was_killed(samples):
    def work():
        recording.start()
        CLAIMS.add(count=3)

    CLAIMS.add()
    child(work)
    files = sorted(Path(os.environ[recording.DIRECTORY]).glob("*.db"))
    child(work)
    assert 7 == samples()["ingot_claims_total"]
    assert files == sorted(Path(os.environ[recording.DIRECTORY]).glob("*.db"))
    assert 6 == len(files)


def test_a_new_process_does_not_continue_the_level_of_one_that_was_killed(samples):
    def work():
        recording.start()
        EVENT_STREAMS.add(3)

    EVENT_STREAMS.add(2)
    EVENT_STREAMS.add(-1)
    child(work)
    assert 4 == samples()["ingot_event_streams"]
    child(recording.start)  # it takes the slot
    assert 1 == samples()["ingot_event_streams"]


def test_the_files_of_a_process_have_their_blocks_before_the_disk_is_full(samples):
    for path in Path(os.environ[recording.DIRECTORY]).glob("*.db"):
        status = path.stat()
        assert status.st_blocks * 512 >= status.st_size > 100_000, path


def test_a_process_that_gets_no_space_runs_without_metrics(tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with recording_into(tmp_path) as samples:
        CLAIMS.add()
        assert {} == samples()
    assert "metrics.not_recorded" in capsys.readouterr().out


def test_the_files_of_ended_processes_are_removed_and_those_in_use_are_kept(tmp_path):
    child(lambda: recording.prepare(tmp_path))
    (ended,) = tmp_path.iterdir()
    with recording_into(tmp_path):
        CLAIMS.add()
        assert not ended.exists()
        (used,) = tmp_path.iterdir()
        child(lambda: recording.prepare(tmp_path))
        assert 1 == samples_in(used)["ingot_claims_total"]
