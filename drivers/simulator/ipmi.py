"""
Simulated machines with IPMI BMCs, for tests, benchmarks and trials.

    python -m drivers.simulator.ipmi --port 0 --count 3

prints the UDP port of each BMC on a line of its own as soon as it listens, then serves until it is
killed. The server is pyghmi's. This module adds the behaviour of real BMCs: explicit errors for
cipher suites other than 3, for unknown users and for wrong passwords; boot flags that are kept as
set; and boot devices for a single boot.
"""

import argparse
import struct
from typing import Any

from pyghmi.ipmi.bmc import Bmc
from pyghmi.ipmi.private import constants, serversession

from drivers.ipmi.child import without_threads

SHA1 = 1
NO_CIPHER_SUITE_MATCH = 0x11
UNAUTHORIZED_NAME = 0x0D
INVALID_INTEGRITY_CHECK = 0x0F
WRONG_STATE = 0xD5
PARAMETER_NOT_SUPPORTED = 0x80
USERS, USER = 3, 2  # number of users, and that of the one that has a name
VALID, PERSISTENT = 0x80, 0x40


class LoginSession(serversession.ServerSession):  # type: ignore[misc]
    """A session that answers a refused login with the reason."""

    def _got_rakp1(self, data: Any) -> None:
        name = bytes(data[28:]).decode(errors="replace")
        if self.authdata.get(name) is None:
            self._refuse("rakp2", data[0], UNAUTHORIZED_NAME)
        else:
            super()._got_rakp1(data)

    def _got_rakp3(self, data: Any) -> None:
        super()._got_rakp3(data)
        if self.sessionid == 0:  # the login failed
            self._refuse("rakp4", data[0], INVALID_INTEGRITY_CHECK)

    def _refuse(self, payload: str, tag: int, status: int) -> None:
        self.send_payload(
            bytearray([tag, status, 0, 0]) + self.clientsessionid,
            constants.payload_types[payload],
            retry=False,
        )


class SimulatedBmc(Bmc):  # type: ignore[misc]
    """
    A machine with a power state, and its BMC.

    strict: refuse cipher suites other than 3; otherwise answer them in SHA-1, as virtualbmc does.
    """

    def __init__(
        self, users: dict[str, str], port: int = 0, host: str = "127.0.0.1", strict: bool = True
    ) -> None:
        super().__init__(users, port=port, address=host)
        self.port: int = self.serversocket.getsockname()[1]
        self.strict = strict
        self.power = "off"
        self.authdata = dict(users)  # each BMC has its own
        self.boot_flags = bytes(5)  # value of IPMI's boot flags parameter, as last set

    def get_power_state(self) -> str:
        return self.power

    def power_on(self) -> int:
        if self.power == "off":
            self.power = "on"
            self._boot()
        return 0

    def power_off(self) -> int:
        self.power = "off"
        return 0

    def power_shutdown(self) -> int:
        return self.power_off()

    def power_reset(self) -> int:
        if self.power == "off":
            return WRONG_STATE
        self._boot()
        return 0

    def power_cycle(self) -> int:
        return self.power_reset()

    def get_system_boot_options(self, request: dict[str, Any], session: Any) -> None:
        if request["data"][0] == 5:
            session.send_ipmi_response(data=[1, 5, *self.boot_flags])
        else:
            session.send_ipmi_response(code=PARAMETER_NOT_SUPPORTED)

    def set_system_boot_options(self, request: dict[str, Any], session: Any) -> None:
        if request["data"][0] == 5:
            self.boot_flags = bytes(request["data"][1:6])
        session.send_ipmi_response()

    def handle_raw_request(self, request: dict[str, Any], session: Any) -> None:
        command = (request["netfn"], request["command"])
        data = bytes(request["data"])
        if command == (6, 0x44):  # get user access
            session.send_ipmi_response(data=[USERS, USER, 1, 0x34])
        elif command == (6, 0x46):  # get user name
            name = next(iter(self.authdata)) if data[0] == USER else ""
            session.send_ipmi_response(data=list(name.encode().ljust(16, b"\0")))
        elif command == (6, 0x47):  # set user password
            if data[0] & 0x3F != USER or data[1] != 2 or len(data) not in (18, 22):
                session.send_ipmi_response(code=0xCC)
                return
            session.send_ipmi_response()
            self.authdata[next(iter(self.authdata))] = data[2:].rstrip(b"\0").decode()
        else:
            super().handle_raw_request(request, session)

    def _boot(self) -> None:
        if not self.boot_flags[0] & PERSISTENT:
            self.boot_flags = bytes([self.boot_flags[0] & ~VALID, *self.boot_flags[1:]])

    def sessionless_data(self, data: Any, sockaddr: object) -> None:
        """Answer packets outside of a session. Checks the cipher suite of requests to open one."""
        packet = bytearray(data)
        opens = len(packet) >= 48 and packet[4] == 6 and packet[5] == 0x10
        if not opens:
            super().sessionless_data(data, sockaddr)
            return
        request = packet[16:]
        if self.strict and request[12] != SHA1:
            self._refuse_suite(request, sockaddr)
        else:
            LoginSession(
                self.authdata, self.kg, sockaddr, self.serversocket, request, self.uuid, bmc=self
            )

    def _refuse_suite(self, request: bytearray, sockaddr: object) -> None:
        body = bytes([request[0], NO_CIPHER_SUITE_MATCH, 0, 0]) + bytes(request[4:8])
        header = b"\x06\x00\xff\x07\x06\x11" + bytes(8) + struct.pack("<H", len(body))
        self.serversocket.sendto(header + body, sockaddr)


def main() -> None:
    parser = argparse.ArgumentParser(description="Simulated machines with IPMI BMCs.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument(
        "--port", type=int, default=0, help="port of the first BMC; 0: any free port"
    )
    parser.add_argument("--count", type=int, default=1, help="number of BMCs, on consecutive ports")
    parser.add_argument("--username", default="admin")
    parser.add_argument("--password", default="password")
    parser.add_argument("--lax", action="store_true", help="answer every cipher suite in SHA-1")
    arguments = parser.parse_args()
    without_threads()
    users = {arguments.username: arguments.password}
    for number in range(arguments.count):
        port = arguments.port and arguments.port + number
        bmc = SimulatedBmc(users, port, arguments.host, strict=not arguments.lax)
        print(bmc.port, flush=True)  # noqa: T201
    Bmc.listen()


if __name__ == "__main__":
    main()
