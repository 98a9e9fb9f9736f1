"""
A BMC with a serial console: OpenIPMI's simulator, and the machine's serial port behind it.

    with SolBmc(tmp_path) as bmc:
        bmc.prints(b"login: ")
        assert b"root\\r" == bmc.typed(5)
"""

import shutil
import socket
import subprocess
import threading
import time
from contextlib import suppress

from tests.support import debian
from tests.support.ports import free_port
from tests.support.prerequisites import not_run

SECRET = "s3rial-c0nsole"
LAN = """
name "bmc"
set_working_mc 0x20
startlan 1
  addr 127.0.0.1 {port}
  priv_limit admin
  allowed_auths_admin none md2 md5 straight
  guid a123456789abcdefa123456789abcdef
endlan
sol "tcp:127.0.0.1:{serial}" 115200
user 1 true "" "none" user 10 none md2 md5 straight
user 2 true "admin" "{password}" admin 10 none md2 md5 straight
"""
CONTROLLER = """
mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
sel_enable 0x20 100 0x0a
mc_enable 0x20
"""


def program(name, package):
    """Return the path of a program, from the system's packages if necessary."""
    path = debian.provide(lambda: shutil.which(name), package)
    if path is None:
        not_run(name)
    return path


class SolBmc:
    """The BMC. Its machine prints what a test tells it to, and notes what is typed."""

    def __init__(self, folder):
        self.folder, self.port = folder, free_port(socket.SOCK_DGRAM)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections, self._typed = [], bytearray()
        self._changed = threading.Condition()
        self.simulator = None

    def __enter__(self):
        program("ipmitool", "ipmitool")
        self._program = program("ipmi_sim", "openipmi")
        serial = self._listener.getsockname()[1]
        (self.folder / "lan").write_text(LAN.format(port=self.port, serial=serial, password=SECRET))
        (self.folder / "controller").write_text(CONTROLLER)
        threading.Thread(target=self._serve, daemon=True).start()
        self.start()
        return self

    def start(self):
        """Start the simulator, again after `kill`."""
        folder = self.folder
        self.simulator = subprocess.Popen(
            [self._program, "-n", "-c", folder / "lan", "-f", folder / "controller", "-s", folder],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def kill(self):
        self.simulator.kill()
        self.simulator.wait()

    def __exit__(self, *_):
        self.kill()
        self._listener.close()
        for connection in self._connections:
            connection.close()

    @property
    def driver_info(self):
        return {
            "ipmi_address": "127.0.0.1",
            "ipmi_port": self.port,
            "ipmi_username": "admin",
            "ipmi_password": SECRET,
            "ipmi_cipher_suite": 3,
        }

    def prints(self, data):
        """Let the machine print; wait until the simulator has the serial port."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._connections, 60)
            for connection in self._connections:
                with suppress(OSError):
                    connection.sendall(data)

    def typed(self, length, seconds=60):
        """Return what was typed, when it has this length."""
        end = time.monotonic() + seconds
        with self._changed:
            while len(self._typed) < length and time.monotonic() < end:
                self._changed.wait(0.1)
            return bytes(self._typed)

    def _serve(self):
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with self._changed:
                    self._connections.append(connection)
                    self._changed.notify_all()
                threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection):
        with suppress(OSError):
            while data := connection.recv(4096):
                with self._changed:
                    self._typed += data
                    self._changed.notify_all()
        with self._changed:
            self._connections.remove(connection)
