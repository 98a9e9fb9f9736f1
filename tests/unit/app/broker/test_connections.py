"""Preparation of a process for its first message: the supervisor has done most of it already."""

import threading

import pytest

from app.broker import queue, redis_broker, redis_transport
from app.config import settings

URL = "redis://127.0.0.1:1/0"


@pytest.fixture
def no_metadata(monkeypatch):
    """Let the version of redis-py not be found by reading the metadata of packages."""

    def read():
        raise AssertionError("the metadata was read")

    monkeypatch.setattr("redis.utils.get_lib_version", read)


def test_a_connection_to_redis_reads_no_metadata_of_packages(no_metadata):
    with redis_broker.client(URL, 1) as client:
        assert "redis-py" == client.connection_pool.make_connection().driver_info.name


def test_a_connection_of_celery_reads_no_metadata_of_packages(monkeypatch):
    monkeypatch.setattr(redis_transport.redis.Channel, "_connparams", lambda _self: {"db": 0})
    channel = object.__new__(redis_transport.Channel)
    assert {"db": 0, "driver_info": redis_broker.DRIVER} == channel._connparams()


def test_all_threads_share_the_missing_result_backend():
    configuration = settings.load({"INGOT_BROKER_URL": URL})
    application, backends = queue.celery(configuration), []
    thread = threading.Thread(target=lambda: backends.append(application.backend))
    thread.start()
    thread.join()
    assert [application.backend] == backends
