"""Messages that a worker has taken when it ends."""

import tempfile
from dataclasses import replace

from app.broker import queue
from app.config.settings import Broker, Settings


def test_a_worker_that_ends_without_redis_leaves_no_file(
    redis_url, redis_client, tmp_path, monkeypatch
):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    application = queue.celery(replace(Settings(), broker=replace(Broker(), url=redis_url)))
    with application.connection_for_write() as connection:
        channel = connection.default_channel
        channel.queue_declare("taken")
        connection.Producer().publish({}, routing_key="taken", serializer="json")
        assert channel.basic_get("taken") is not None
        redis_client.shutdown(nosave=True)
        channel.qos.restore_unacked_once()
    assert [] == list((tmp_path / "tmp").iterdir())
