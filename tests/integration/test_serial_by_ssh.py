"""A serial console by SSH, through a real sshd: login, host key, and a wrong password."""

import asyncio
import os
import shutil
import subprocess
from types import SimpleNamespace

import pytest

from drivers.redfish import console
from tests.support import debian
from tests.support.fleet import until
from tests.support.ports import free_port
from tests.support.prerequisites import not_run
from workers.consoles.child import Child

SECRET = "s3cret"
CONFIG = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/{key}
PidFile none
UsePAM no
PasswordAuthentication yes
KbdInteractiveAuthentication no
PermitRootLogin yes
StrictModes no
ForceCommand echo "entered by $SSH_ORIGINAL_COMMAND"; while read line; do echo "heard $line"; done
"""
#: sshd reads the shadow file of the system: in a mount namespace, ours lies over it.
START = 'mount --bind "$0/shadow" /etc/shadow && exec "$1" -D -f "$0/config"'


@pytest.fixture
def sshd(tmp_path):
    """Start an sshd whose user root has the password; returns its port, and a restart."""
    if os.geteuid():
        not_run("an sshd with passwords needs root")
    path = "/usr/sbin:/usr/bin"
    program = debian.provide(lambda: shutil.which("sshd", path=path), "openssh-server")
    if program is None or shutil.which("ssh") is None:
        not_run("sshd")
    digest = subprocess.run(
        ["openssl", "passwd", "-6", SECRET], capture_output=True, text=True, check=True
    ).stdout.strip()
    (tmp_path / "shadow").write_text(f"root:{digest}:19000:0:99999:7:::\n")
    for key in ("first", "second"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / key]
        subprocess.run(command, check=True)
    os.makedirs("/run/sshd", exist_ok=True)
    port, running = free_port(), []

    def start(key="first"):
        for process in running:
            process.kill()
            process.wait()
        (tmp_path / "config").write_text(CONFIG.format(port=port, folder=tmp_path, key=key))
        command = ["unshare", "-m", "sh", "-c", START, tmp_path, program]
        running[:] = [subprocess.Popen(command, stderr=subprocess.DEVNULL)]
        until(lambda: listens(port), "the start of sshd")
        if running[0].poll() is not None:
            not_run("a mount namespace")

    start()
    yield SimpleNamespace(port=port, start=start)
    running[0].kill()
    running[0].wait()


def listens(port):
    command = ["ss", "-Htln", f"sport = :{port}"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True)
    return lines.stdout.strip()


async def _session(program, ends):
    output = bytearray()
    child = Child(program, output.extend)
    try:
        async with asyncio.timeout(60):
            while not ends(bytes(output), child):  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.05)
    finally:
        await child.end()
    return bytes(output)


def session(program, ends):
    return asyncio.run(_session(program, ends))


def test_the_console_is_entered_typed_at_and_bound_to_the_key_of_the_bmc(sshd, tmp_path):
    node = SimpleNamespace(uuid="n1", options={"DEFAULT": {"data_dir": str(tmp_path / "data")}})

    def program(password=SECRET):
        bmc = SimpleNamespace(address="https://127.0.0.1", username="root", password=password)
        return console._by_ssh(node, bmc, (sshd.port, "start console1"))

    def typing(output, child):
        if console.GREETING.encode() in output and not typing.is_done:
            typing.is_done = True
            child.write(b"hello\n~.\n")
        return b"heard ~." in output

    typing.is_done = False
    output = session(program(), typing)
    assert b"entered by start console1" in output
    assert b"heard hello" in output
    refused = session(program("wrong"), lambda _output, child: child.ended.done())
    assert b"Permission denied" in refused
    assert console.GREETING.encode() not in refused
    sshd.start("second")
    changed = session(program(), lambda _output, child: child.ended.done())
    assert b"Host key verification failed" in changed
    assert console.GREETING.encode() not in changed
