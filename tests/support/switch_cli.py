"""
A switch with the commands of Cisco IOS, and an SSH server in front of it.

It knows what the service sends, and refuses everything else as IOS does.
"""

import re
import socket
import threading
from contextlib import contextmanager

import paramiko

PROMPT = "leaf-1"
USER, PASSWORD = "ingot", "a-password"
INVALID = "                  ^\n% Invalid input detected at '^' marker.\n"


class IosSwitch:
    """
    interfaces: name -> lines of its configuration.

    fail_after: number of configuration commands after which the switch falls silent, as if it, or
    the conductor, had died; None: never. watch: called after each configuration command.
    """

    def __init__(self, *ports):
        self.interfaces = {name: [] for name in ports}
        self.commands, self.saved = [], 0
        self.fail_after, self.watch = None, lambda: None
        self._mode, self._interface = "exec", None

    def prompt(self):
        marks = {"exec": "#", "config": "(config)#", "interface": "(config-if)#"}
        return PROMPT + marks[self._mode]

    def execute(self, line):
        """Return the output of a command."""
        line = line.strip()
        if self._mode == "exec":
            return self._in_exec(line)
        if line in ("end", "\x1a"):
            self._mode = "exec"
            return ""
        if line == "exit":
            self._mode = "exec" if self._mode == "config" else "config"
            return ""
        if self.fail_after is not None and len(self.commands) >= self.fail_after:
            raise ConnectionError("the switch has died")
        output = self._configure(line)
        self.commands.append(line)
        self.watch()
        return output

    def _in_exec(self, line):
        if line in ("configure terminal", "conf t"):
            self._mode = "config"
            return "Enter configuration commands, one per line.  End with CNTL/Z.\n"
        if line in ("terminal width 511", "terminal length 0", "enable", ""):
            return ""
        if line in ("write mem", "copy running-config startup-config"):
            self.saved += 1
            return "Building configuration...\n[OK]\n"
        if match := re.fullmatch(r"show running-config interface (\S+)", line):
            name = self._known(match[1])
            if name is None:
                return INVALID
            body = "".join(f" {interface}\n" for interface in self.interfaces[name])
            return f"Building configuration...\n\nCurrent configuration : 99 bytes\n!\ninterface {name}\n{body}end\n\n"
        return INVALID

    def _known(self, name):
        return next(
            (interface for interface in self.interfaces if interface.lower() == name.lower()), None
        )

    def _configure(self, line):
        if match := re.fullmatch(r"interface (\S+)", line):
            name = self._known(match[1])
            if name is None and match[1].lower().startswith("port-channel"):
                name = f"Port-channel{match[1][12:]}"
                self.interfaces[name] = []
            if name is None:
                return INVALID
            self._mode, self._interface = "interface", name
            return ""
        if self._mode != "interface":
            return INVALID
        lines = self.interfaces[self._interface]
        for pattern in PATTERNS:
            if match := re.fullmatch(f"(no )?({pattern})( .*)?", line):
                lines[:] = [setting for setting in lines if not re.match(pattern, setting)]
                if not match[1]:
                    lines.append(line)
                    self._bundle(line)
                return ""
        return INVALID

    def _bundle(self, line):
        if match := re.fullmatch(r"channel-group (\d+) mode active", line):
            self.interfaces.setdefault(f"Port-channel{match[1]}", [])


PATTERNS = (
    "shutdown", "channel-group", "switchport mode", "switchport access vlan",
    "switchport trunk native vlan", "switchport trunk allowed vlan",
)  # fmt: skip


class _Server(paramiko.ServerInterface):
    def check_auth_password(self, username, password):
        right = (username, password) == (USER, PASSWORD)
        return paramiko.AUTH_SUCCESSFUL if right else paramiko.AUTH_FAILED

    def get_allowed_auths(self, username):
        return "password"

    def check_channel_request(self, kind, chanid):
        return paramiko.OPEN_SUCCEEDED

    def check_channel_pty_request(self, *_):
        return True

    def check_channel_shell_request(self, channel):
        return True


class SshServer:
    """The SSH server at `port` of loopback, with `host_key`; `logins` counts its sessions."""

    def __init__(self, switch, listener):
        self.switch, self._listener, self.logins = switch, listener, 0
        self.key = paramiko.ECDSAKey.generate()
        self.host_key = f"{self.key.get_name()} {self.key.get_base64()}"
        self.port = listener.getsockname()[1]

    def serve(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._session, args=(connection,), daemon=True).start()

    def _session(self, connection):
        transport = paramiko.Transport(connection)
        try:
            transport.add_server_key(self.key)
            transport.start_server(server=_Server())
            channel = transport.accept(20)
            if channel is not None:
                self.logins += 1
                self._talk(channel)
        except (ConnectionError, EOFError, OSError, paramiko.SSHException):
            pass
        finally:
            transport.close()

    def _talk(self, channel):
        self.switch._mode = "exec"
        channel.sendall(self.switch.prompt().encode())
        line = b""
        while byte := channel.recv(1):
            if byte not in (b"\n", b"\r"):
                line += byte
                continue
            text, line = line.decode(), b""
            if text == "exit" and self.switch._mode == "exec":
                return
            output = self.switch.execute(text)
            answer = f"{text}\n{output}{self.switch.prompt()}".replace("\n", "\r\n")
            channel.sendall(answer.encode())


@contextmanager
def serving(switch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = SshServer(switch, listener)
        thread = threading.Thread(target=server.serve, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


class DirectSession:
    """A session with a switch of this process, without SSH."""

    def __init__(self, switch, dialect, device):
        self.device, self.dialect, self.switch = device, dialect, switch

    def show(self, command):
        return self.device.execute(command)

    def configure(self, commands):
        self.device._mode = "config"
        for command in commands:
            output = self.device.execute(command)
            assert not output, (command, output)
        self.device._mode = "exec"

    def save(self):
        self.device.execute("write mem")
