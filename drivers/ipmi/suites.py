"""
Which cipher suite a BMC agrees to, where its node names none: `[ipmi]cipher_suite_versions`.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from drivers.core.errors import Refused, Unexpected, Unreachable
from drivers.ipmi.credentials import PYGHMI_SUITES, Credentials

#: (credentials, netfn, command, data, deadline) -> completion code, answer
Carry = Callable[[Credentials, int, int, bytes, float], tuple[int, bytes]]

APPLICATION, GET_DEVICE_ID = 0x06, 0x01


def candidates(bmc: Credentials, listed: Sequence[str]) -> tuple[int, ...]:
    """The suites to try, in order: the best is listed last; none if the node has its own."""
    suites = [int(number) for number in reversed(listed)]
    if bmc.client == "pyghmi":
        suites = [suite for suite in suites if suite in PYGHMI_SUITES]
    return () if bmc.cipher_suite is not None else tuple(suites)


def agreed(carry: Carry, bmc: Credentials, suites: Sequence[int], deadline: float) -> int:
    """
    The first of `suites` that the BMC lets us in with; a harmless question tells.

    Each has its share of the time: a BMC may stay silent to what it does not know. Wrong
    credentials are not tried with every suite, lest the BMC lock the user out.

    Raises what `carry` raises with the last one.
    """
    for number, suite in enumerate(suites):
        now = time.monotonic()
        until = now + (deadline - now) / (len(suites) - number)
        try:
            carry(replace(bmc, cipher_suite=suite), APPLICATION, GET_DEVICE_ID, b"", until)
        except (Refused, Unreachable, Unexpected) as error:
            other = isinstance(error, Refused) and "cipher suite" not in str(error).lower()
            if other or suite == suites[-1]:
                raise
        else:
            break
    return suite
