"""Received messages of a worker that ends."""

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


def test_messages_of_a_channel_are_sent_by_one_client_that_a_new_pool_replaces(redis_url):
    application = queue.celery(replace(Settings(), broker=replace(Broker(), url=redis_url)))
    with application.connection_for_write() as connection:
        channel = connection.default_channel

        def client():
            with channel.conn_or_acquire() as sender:
                assert sender.ping()
                return sender

        first_client = client()
        assert first_client is client()
        channel._disconnect_pools()  # as Kombu does after a lost connection
        assert first_client is not client()
        assert client() is client()
