"""
Open vSwitch as a switch, behind a real sshd on loopback.

Without ports of machines it has its dummy datapath: no packet flows, and the kernel is not involved.
With them it forwards frames in user space, between network namespaces.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path

from tests.support import debian
from tests.support.ports import free_port
from tests.support.prerequisites import not_run

BRIDGE = "genericswitch"
SSHD = """Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
PidFile none
AuthorizedKeysFile {folder}/key.pub
PermitRootLogin yes
StrictModes no
UsePAM no
PasswordAuthentication no
SetEnv OVS_RUNDIR={folder}
"""


def require():
    """Skip the test if a part is not available."""
    if os.geteuid() != 0:
        not_run("root, to install Open vSwitch and to start sshd")
    if not debian.provide(_programs, "openvswitch-switch openssh-server"):
        not_run("Open vSwitch and sshd of Debian")


def _programs():
    return all(map(shutil.which, ("ovs-vswitchd", "ovsdb-server", "/usr/sbin/sshd"))) or None


def vsctl(folder, *arguments):
    command = ["ovs-vsctl", f"--db=unix:{folder}/db.sock", "--timeout=20", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def start(scope, command, **options):
    process = subprocess.Popen(command, **options)
    scope.callback(process.wait, 30)
    scope.callback(process.terminate)
    return process


def start_switch(scope, folder, dummies=(), interfaces=()):
    """
    Start Open vSwitch with a bridge.

    dummies: names of ports without a machine. interfaces: names of network interfaces of this host
    that become ports; then frames are forwarded.
    """
    schema = "/usr/share/openvswitch/vswitch.ovsschema"
    subprocess.run(["ovsdb-tool", "create", folder / "conf.db", schema], check=True)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    paths = {**os.environ, "OVS_RUNDIR": str(folder)}
    database = ["ovsdb-server", folder / "conf.db", f"--remote=punix:{folder}/db.sock"]
    start(scope, database, env=paths, **quiet)
    until((folder / "db.sock").exists)
    vsctl(folder, "--no-wait", "init")
    switch = ["ovs-vswitchd", f"unix:{folder}/db.sock", "--disable-system"]
    switch += [] if interfaces else ["--enable-dummy=override"]
    start(scope, switch, env=paths, **quiet)
    kind = "netdev" if interfaces else "dummy"
    fields = [f"datapath_type={kind}", f"fail-mode={'standalone' if interfaces else 'secure'}"]
    vsctl(folder, "add-br", BRIDGE, "--", "set", "bridge", BRIDGE, *fields)
    for port in dummies:
        vsctl(folder, "add-port", BRIDGE, port, "--", "set", "interface", port, "type=dummy")
    for port in interfaces:
        vsctl(folder, "add-port", BRIDGE, port)


def start_sshd(scope, folder):
    """Start sshd for `root`, with the key `folder/key`; return its port."""
    for name in ("host", "key"):
        keygen = ["ssh-keygen", "-q", "-t", "rsa", "-m", "PEM", "-N", "", "-f", folder / name]
        subprocess.run(keygen, check=True)
    Path("/run/sshd").mkdir(exist_ok=True)
    port = free_port()
    (folder / "sshd_config").write_text(SSHD.format(port=port, folder=folder))
    command = ["/usr/sbin/sshd", "-D", "-f", folder / "sshd_config", "-E", folder / "sshd.log"]
    start(scope, command)
    return port


def until(condition, seconds=300):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)
