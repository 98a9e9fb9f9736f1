"""Connections whose clients receive nothing."""

import os
import socket
from contextlib import closing

from app.api.feed.slow_clients import SILENCE, limit_silence


def timeout_of(connection):
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)


def test_connections_to_the_port_are_limited_and_no_descriptor_is_left(tmp_path):
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_server(("127.0.0.1", 0)) as another,
        socket.socket(socket.AF_UNIX) as local,
        open(tmp_path / "file", "w"),
    ):
        port = server.getsockname()[1]
        with (
            socket.create_connection(("127.0.0.1", port)),
            closing(server.accept()[0]) as old_connection,
        ):
            descriptors = os.listdir("/proc/self/fd")
            limit_silence(port)
            assert descriptors == os.listdir("/proc/self/fd")
            assert {SILENCE * 1000} == {timeout_of(server), timeout_of(old_connection)}
        with (
            socket.create_connection(("127.0.0.1", port)),
            closing(server.accept()[0]) as new_connection,
        ):
            assert SILENCE * 1000 == timeout_of(new_connection)
        assert 0 == timeout_of(another)
        assert "" == local.getsockname()
