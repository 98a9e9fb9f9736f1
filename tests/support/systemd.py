"""The end of systemd's protocol of notifications (sd_notify) that is systemd's."""

import socket


class Systemd:
    """The socket that systemd listens on; `environ` is that of the service."""

    def __init__(self, address):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._socket.setblocking(False)
        self.environ = {"NOTIFY_SOCKET": address, "HOME": "/root"}
        self._lines = set()

    def heard(self):
        """All messages since the last call, each as a list of lines."""
        messages = []
        while True:
            try:
                messages.append(self._socket.recv(4096).decode().split("\n"))
            except BlockingIOError:
                return messages

    def close(self):
        self._socket.close()

    def has_heard(self, *lines):
        """Whether each of these lines was in a message since the start."""
        self._lines |= {line for message in self.heard() for line in message}
        return set(lines) <= self._lines
