"""Answers of a BMC to GET requests, as they are, for a recording. No order is sent."""

import time
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from drivers.core.bmc import Bmcs, Urgency
from drivers.core.errors import HardwareError, InvalidDriverInfo, Unreachable
from drivers.core.recording.bundle import is_path, kept_headers, text_of
from drivers.core.target import Target
from drivers.net import answers
from drivers.net.answers import Malformed
from drivers.redfish.transport import client
from drivers.redfish.transport.access import access

#: Limits of one call, after which the other paths are left to the next call.
SECONDS, SIZE = 20.0, 2 << 20


def recorded(target: Target, bmcs: Bmcs, paths: Sequence[str]) -> list[dict[str, Any]]:
    """
    Return the answers to some of the paths, at least one: `drivers.core.recording.bundle.Answer`.

    Each request has a turn of its own, so that orders and the power sync are not delayed. A
    document that the client refuses, or that is not answered, has status 0 and the error as `body`.

    Raises InvalidDriverInfo: a path cannot be the path of a BMC's document.
    Raises HardwareError: the BMC does not answer, or refuses the login.
    """
    for path in paths:
        if not is_path(path):
            raise InvalidDriverInfo(f"paths: {path!r} is no path below /redfish")
    end, size = time.monotonic() + SECONDS, 0
    answers: list[dict[str, Any]] = []
    for path in paths:
        if answers and (time.monotonic() > end or size > SIZE):
            break
        try:
            answers.append(_answer(target, bmcs, path))
        except Unreachable:
            if answers:
                break  # the next call says so, if the BMC stays silent
            raise
        size += len(answers[-1]["body"])
    if all(answer["status"] == HTTPStatus.UNAUTHORIZED for answer in answers):
        raise access(target).login_refused(HTTPStatus.UNAUTHORIZED)
    return answers


def _answer(target: Target, bmcs: Bmcs, path: str) -> dict[str, Any]:
    for is_last in (False, True):
        with client.turn(target, bmcs, Urgency.SYNC) as bmc:
            try:
                response = _get(bmc, path)
            except (HardwareError, Malformed) as error:
                if isinstance(error, Unreachable):
                    raise
                reason = bmc.access.mask(f"{type(error).__name__}: {error}")
                return {
                    "path": path,
                    "status": 0,
                    "headers": {},
                    "encoding": "utf-8",
                    "body": reason,
                }
            if response.status_code == HTTPStatus.UNAUTHORIZED and not is_last:
                bmc.close()  # the session has ended: log in again
                continue
        encoding, body = text_of(response.content)
        return {
            "path": path,
            "status": response.status_code,
            "headers": kept_headers(response.headers),
            "encoding": encoding,
            "body": body,
        }
    raise AssertionError("unreachable: the second round returns or raises")


def _get(bmc: client.Connection, path: str) -> Any:
    """GET a path with the login of the connection; its answer is neither mended nor redirected."""
    access, connector = bmc.access, bmc.open()._conn
    adapter = answers.MachineAdapter(access.address, f"BMC {access.address}", access.reach)
    session = answers.session(adapter)
    session.headers.update(connector._session.headers)
    session.auth = connector._session.auth
    return session.get(
        f"{access.address}{path}",
        headers={"OData-Version": "4.0", "Accept": "application/json"},
        allow_redirects=False,
        verify=connector._verify,
        timeout=(access.connect_timeout, access.read_timeout),
    )
