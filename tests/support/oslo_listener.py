"""
A consumer of notifications: the listener of oslo.messaging, as existing consumers use it.

A program of its own, because oslo.messaging imports eventlet. It prints a JSON line for each
notification.
"""

import json
import subprocess
import sys
import threading
from contextlib import contextmanager

from tests.support.fleet import ROOT

TOPIC = "ironic_versioned_notifications"


class Heard:
    """Notifications that a listener has got, in their order."""

    def __init__(self, process):
        self._process, self._lines = process, []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self):
        self._lines += iter(self._process.stdout.readline, "")

    @property
    def all(self):
        """All notifications, also repeated ones."""
        assert self._process.poll() is None, "the listener has ended"
        return [json.loads(line) for line in self._lines[:]]

    @property
    def distinct(self):
        """Notifications without repetitions, in the order of their first arrival."""
        return list(
            {
                notification["message_id"]: notification for notification in reversed(self.all)
            }.values()
        )[::-1]

    def close(self):
        self._process.kill()
        self._process.wait()
        self._thread.join()
        self._process.stdout.close()


@contextmanager
def listening(url, *options):
    """Run a listener for the topic and the exchange that Ironic uses."""
    command = [sys.executable, "-W", "ignore", "-m", __name__, url, *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    heard = Heard(process)
    try:
        yield heard
    finally:
        heard.close()


def listen(url, *options):
    """Print the notifications of both levels until the process is killed."""
    import oslo_messaging
    from oslo_config import cfg

    configuration = cfg.ConfigOpts()
    configuration([])
    transport = oslo_messaging.get_notification_transport(configuration, url=url)
    configuration.set_override("heartbeat_timeout_threshold", 5, "oslo_messaging_rabbit")
    for option in options:
        configuration.set_override(option, True, "oslo_messaging_rabbit")
    target = oslo_messaging.Target(topic=TOPIC, exchange="ironic")
    listener = oslo_messaging.get_notification_listener(
        transport, [target], [_Endpoint()], executor="threading"
    )
    configuration.set_override("executor_thread_pool_size", 1)  # more threads mix up the order
    listener.start()
    listener.wait()


class _Endpoint:
    """Prints each notification; oslo.messaging calls the method of its priority."""

    def info(self, _context, publisher_id, event_type, payload, metadata):
        _print("info", publisher_id, event_type, payload, metadata)

    def error(self, _context, publisher_id, event_type, payload, metadata):
        _print("error", publisher_id, event_type, payload, metadata)


def _print(level, publisher_id, event_type, payload, metadata):
    notification = {
        "level": level, "publisher_id": publisher_id, "event_type": event_type,
        "payload": payload, **metadata,
    }  # fmt: skip
    sys.stdout.write(f"{json.dumps(notification)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    listen(*sys.argv[1:])
