"""
Negotiation of the cipher suite with a BMC whose node names none: `[ipmi]cipher_suite_versions`.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from drivers.core.errors import LoginRefused, Unexpected, Unreachable
from drivers.ipmi.credentials import PYGHMI_SUITES, Credentials

#: (credentials, netfn, command, data, deadline) -> completion code, answer
Transport = Callable[[Credentials, int, int, bytes, float], tuple[int, bytes]]

APPLICATION, GET_DEVICE_ID = 0x06, 0x01


def candidates(bmc: Credentials, suite_names: Sequence[str]) -> tuple[int, ...]:
    """
    Return the suites to try, in order; empty if the node names its suite.

    suite_names: the setting, the best suite last.
    """
    suites = [int(number) for number in reversed(suite_names)]
    if bmc.client == "pyghmi":
        suites = [suite for suite in suites if suite in PYGHMI_SUITES]
    return () if bmc.cipher_suite is not None else tuple(suites)


def negotiate(
    transport: Transport, bmc: Credentials, suites: Sequence[int], deadline: float
) -> int:
    """
    Return the first suite with which a login works, tested by a read-only command.

    The suites share the time until `deadline`, since a BMC may send no answer to an unknown one. A
    refusal of the credentials ends the negotiation, so that repeated failures cannot lock the user
    out.

    Raises LoginRefused, Unreachable, Unexpected: the error of the last login.
    """
    for number, suite in enumerate(suites):
        now = time.monotonic()
        attempt_deadline = now + (deadline - now) / (len(suites) - number)
        try:
            transport(
                replace(bmc, cipher_suite=suite), APPLICATION, GET_DEVICE_ID, b"", attempt_deadline
            )
        except (LoginRefused, Unreachable, Unexpected) as error:
            is_other_error = (
                isinstance(error, LoginRefused) and "cipher suite" not in str(error).lower()
            )
            if is_other_error or suite == suites[-1]:
                raise
        else:
            break
    return suite
