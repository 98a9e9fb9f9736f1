"""The VNC server of QEMU, as a real one that this project has not written."""

import asyncio
import json
import shutil
import subprocess

import pytest

from drivers.core.consoles import Screen
from drivers.core.errors import LoginRefused
from drivers.net.rfb_login import connect
from tests.support import debian
from tests.support.fleet import until
from tests.support.ports import free_port
from tests.support.prerequisites import not_run

pytestmark = pytest.mark.slow
PASSWORD = "s3cr3t"


@pytest.fixture
def port():
    """Port of the VNC server of a machine without a disk, which wants `PASSWORD`."""
    name = "qemu-system-x86_64"
    program = debian.provide(lambda: shutil.which(name), "qemu-system-x86") or not_run(name)
    number = free_port()
    while not 5900 <= number < 65000:
        number = free_port()
    command = [
        program, "-machine", "pc,accel=tcg", "-m", "16", "-display", "none", "-nodefaults", "-vga", "std",
        "-vnc", f"127.0.0.1:{number - 5900},password=on", "-qmp", "stdio",
    ]  # fmt: skip
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as machine:
        try:
            assert b"QMP" in machine.stdout.readline()
            password = {"protocol": "vnc", "password": PASSWORD}
            for order in (
                {"execute": "qmp_capabilities"},
                {"execute": "set_password", "arguments": password},
            ):
                machine.stdin.write(json.dumps(order).encode() + b"\n")
                machine.stdin.flush()
                until(lambda: b"return" in machine.stdout.readline(), "the answer of QEMU")
            yield number
        finally:
            machine.kill()


def test_the_login_of_qemu_leads_to_its_picture(port):
    async def picture():
        connection = await connect(Screen("127.0.0.1", port, PASSWORD))
        try:
            width, height = (int.from_bytes(connection.init[at : at + 2]) for at in (0, 2))
            await connection.stream.write(b"\2\0\0\1" + bytes(4))  # raw pixels
            area = bytes(4) + connection.init[:4]
            await connection.stream.write(b"\3\0" + area)
            head = await connection.stream.readexactly(4)
            assert b"\0" == head[:1], "an update of the picture"
            return width, height, connection.init[24:]
        finally:
            connection.close()

    width, height, name = asyncio.run(picture())
    assert width >= 320
    assert height >= 200
    assert name.startswith(b"QEMU")


@pytest.mark.parametrize("password", ["wrong", None])
def test_a_wrong_password_of_qemu_is_told(port, password):
    with pytest.raises(LoginRefused, match="vnc_password"):
        asyncio.run(connect(Screen("127.0.0.1", port, password)))
