"""Deadlines of exchanges with machines."""

import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.support.fleet import PATIENCE

#: Asks once; the deadline is 0.6 + 2 * 0.6 seconds.
ASK = """
import sys
from drivers.net import networks
from drivers.core.errors import Unreachable
from drivers.net.answers import MachineAdapter, session
reach = networks.of_agents({"agent": {"allowed_networks": (), "denied_networks": ()}})
try:
    asked = session(MachineAdapter(sys.argv[1], "the BMC", reach))
    print(asked.get(sys.argv[1], timeout=0.6).text)
except Unreachable as error:
    print(error)
"""


@pytest.fixture
def machine():
    """A server that answers after 0.3 s with `parts` bytes, and a pause between two of them."""
    arrival = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        parts, pause = 20, staticmethod(lambda: time.sleep(0.3))

        def do_GET(self):
            arrival.set()
            time.sleep(0.3)
            self.send_response(200)
            self.send_header("Content-Length", str(self.parts))
            self.end_headers()
            for _ in range(self.parts):
                try:
                    self.wfile.write(b"x")
                except OSError:
                    return
                self.pause()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.arrival, server.handler, server.continued = arrival, Handler, threading.Event()
        server.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(machine, stopped=0.0):
    """Ask in another process, which is stopped for some seconds; return its output."""
    command = [sys.executable, "-c", ASK, machine.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert machine.arrival.wait(PATIENCE)
        if stopped:
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(stopped)
            os.kill(process.pid, signal.SIGCONT)
            machine.continued.set()
        return process.communicate(timeout=PATIENCE)[0].strip()


def test_an_answer_that_does_not_end_is_cut_off_at_the_deadline(machine):
    assert "the BMC did not send its answer within 1.8 s" == ask(machine)


def test_time_in_which_the_process_is_stopped_does_not_count(machine):
    # the second one follows the stop
    machine.handler.parts = 2
    machine.handler.pause = staticmethod(lambda: machine.continued.wait(PATIENCE))
    assert "xx" == ask(machine, stopped=2.0)
