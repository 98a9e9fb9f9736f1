"""Faults of HTTP: redirects, encodings, entity tags, forms of errors, connections, sessions."""

import gzip
import zlib
from dataclasses import replace
from functools import cache
from time import time
from typing import Any

import orjson

from drivers.simulator.redfish_bmc.documents import ROOT, SESSIONS
from drivers.simulator.refusal import Refusal
from drivers.simulator.rude.row import Exchange, Registry, changed, document
from drivers.simulator.server import CUT, Response, json

FAULTS = Registry()

READING, ORDERING = "One way to read", "One way to order"
#: Unpacked size of the answer of `gzip_bomb`, in bytes.
BOMB = 128 << 20

# Connections


@FAULTS.fault(READING)
def closes_silently(exchange: Exchange) -> Response:
    """The connection is closed after an answer, and no header announces it."""
    response = exchange.go()
    return replace(response, end="close") if exchange.occurs() else response


@FAULTS.fault(READING)
def answer_cut_short(exchange: Exchange) -> Response:
    """The connection is closed in the middle of the body of an answer to a GET."""
    response = exchange.go()
    cut = exchange.reads and response.body and exchange.occurs()
    return replace(response, end="cut") if cut else response


@FAULTS.fault(ORDERING, orders=[])
def order_lost(exchange: Exchange) -> Response:
    """The connection is cut before an order is applied."""
    return CUT if exchange.orders(*exchange["orders"]) and exchange.occurs() else exchange.go()


@FAULTS.fault(ORDERING, orders=[])
def answer_lost(exchange: Exchange) -> Response:
    """The connection is cut after an order has been applied."""
    response = exchange.go()
    return CUT if exchange.orders(*exchange["orders"]) and exchange.occurs() else response


@FAULTS.fault(ORDERING, orders=[])
def read_lost_after_order(exchange: Exchange) -> Response:
    """The connection of the first GET after an order is cut."""
    if exchange.orders(*exchange["orders"]) and exchange.occurs():
        exchange.memory["due"] = True
    elif exchange.reads and exchange.memory.pop("due", False):
        return CUT
    return exchange.go()


@FAULTS.fault(READING, status=503, retry_after=1, reads=True, orders=[])
def busy(exchange: Exchange) -> Response:
    """A request is refused with 503 (or the status 429) and Retry-After, and has no effect."""
    is_concerned = exchange["reads"] if exchange.reads else exchange.orders(*exchange["orders"])
    if is_concerned and exchange.occurs():
        refusal = Refusal(exchange["status"], "ServiceTemporarilyUnavailable", "Try again later.")
        return refusal.response({"Retry-After": str(exchange["retry_after"])})
    return exchange.go()


# Redirects


def _redirected(exchange: Exchange, status: int, location: str) -> Response:
    query = f"?{exchange.request.query}" if exchange.request.query else ""
    return Response(status, headers={"Location": location + query})


def _lacks_slash(exchange: Exchange) -> bool:
    return not exchange.request.path.endswith("/")


@FAULTS.fault(READING, status=308)
def redirect_to_slash(exchange: Exchange) -> Response:
    """A GET without a final slash is redirected to the path with one, as by HPE's iLO 4 and 5."""
    if exchange.reads and _lacks_slash(exchange) and exchange.occurs():
        return _redirected(exchange, exchange["status"], f"{exchange.path}/")
    return exchange.go()


@FAULTS.fault(READING, status=308)
def redirect_from_slash(exchange: Exchange) -> Response:
    """A GET with a final slash is redirected to the path without one."""
    if exchange.reads and not _lacks_slash(exchange) and exchange.occurs():
        return _redirected(exchange, exchange["status"], exchange.path)
    return exchange.go()


@FAULTS.fault(READING, status=302)
def redirect_absolute(exchange: Exchange) -> Response:
    """A GET without a final slash is redirected to the absolute URL with one."""
    if exchange.reads and _lacks_slash(exchange) and exchange.occurs():
        location = f"{exchange.machine.redfish_address}{exchange.path}/"
        return _redirected(exchange, exchange["status"], location)
    return exchange.go()


@FAULTS.fault(ORDERING, status=307, orders=[])
def redirect_orders(exchange: Exchange) -> Response:
    """An order to a path without a final slash is redirected (307) to the path with one."""
    is_concerned = exchange.orders(*exchange["orders"]) and _lacks_slash(exchange)
    if is_concerned and exchange.occurs():
        return _redirected(exchange, exchange["status"], f"{exchange.path}/")
    return exchange.go()


@FAULTS.fault(READING, to="http://192.0.2.1")
def redirect_elsewhere(exchange: Exchange) -> Response:
    """A GET is redirected to another host, which must not get the credentials."""
    if exchange.reads and exchange.occurs():
        return _redirected(exchange, 307, f"{exchange['to']}{exchange.path}")
    return exchange.go()


@FAULTS.fault(READING)
def redirect_endless(exchange: Exchange) -> Response:
    """A GET is redirected to its own path."""
    if exchange.reads and exchange.occurs():
        return _redirected(exchange, 302, exchange.request.path)
    return exchange.go()


# Encodings


@FAULTS.fault(READING)
def gzip_only(exchange: Exchange) -> Response:
    """A GET that accepts no gzip is refused with 406; all documents are compressed."""
    if not exchange.reads or not exchange.occurs():
        return exchange.go()
    if "gzip" not in exchange.request.headers.get("accept-encoding", ""):
        return Refusal(406, "NotAcceptable", "This resource is served with gzip only.").response()
    return _packed(exchange.go())


@FAULTS.fault(READING)
def gzip_unasked(exchange: Exchange) -> Response:
    """A document is compressed, even if the request refuses that, as HPE's registries are."""
    response = exchange.go()
    return _packed(response) if exchange.reads and exchange.occurs() else response


@FAULTS.fault(READING)
def gzip_bomb(exchange: Exchange) -> Response:
    """A document is compressed, and unpacks to 128 MiB."""
    response = exchange.go()
    if not exchange.reads or document(response) is None or not exchange.occurs():
        return response
    return replace(response, body=_bomb(), headers={"Content-Encoding": "gzip"})


@cache
def _bomb() -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    parts = [packer.compress(b" " * (1 << 20)) for _ in range(BOMB >> 20)]
    return b"".join([*parts, packer.compress(b"{}"), packer.flush()])


def _packed(response: Response) -> Response:
    if not response.body:
        return response
    headers = {**(response.headers or {}), "Content-Encoding": "gzip"}
    return replace(response, body=gzip.compress(response.body), headers=headers)


@FAULTS.fault(READING)
def not_utf8(exchange: Exchange) -> Response:
    """A text of each document has a byte that is not UTF-8."""
    return _with_text(exchange, b'"Simulated \xe9\xff"')


@FAULTS.fault(READING)
def control_characters(exchange: Exchange) -> Response:
    """A text of each document has raw control characters (tab, U+0001, line break)."""
    return _with_text(exchange, b'"Simulated\t\x01\n"')


@FAULTS.fault(READING)
def not_a_number(exchange: Exchange) -> Response:
    """A number of each document is NaN, which JSON does not have."""
    return _with_text(exchange, b"NaN")


@FAULTS.fault(READING)
def byte_order_mark(exchange: Exchange) -> Response:
    """Documents begin with the byte order mark of UTF-8."""
    response = exchange.go()
    if not exchange.reads or document(response) is None or not exchange.occurs():
        return response
    return replace(response, body=b"\xef\xbb\xbf" + response.body)


def _with_text(exchange: Exchange, value: bytes) -> Response:
    """Add a property with a value that orjson would not write."""
    response = exchange.go()
    if not exchange.reads or document(response) is None or not exchange.occurs():
        return response
    return replace(response, body=b'{"Description":' + value + b"," + response.body[1:])


# Links and tags


@FAULTS.fault(READING)
def links_absolute(exchange: Exchange) -> Response:
    """Links (@odata.id) and Location headers are absolute URLs of the BMC."""
    response = exchange.go()
    if not exchange.occurs():
        return response
    origin = exchange.machine.redfish_address
    body = response.body.replace(b'"@odata.id":"/', f'"@odata.id":"{origin}/'.encode())
    headers = dict(response.headers or {})
    if headers.get("Location", "").startswith("/"):
        headers["Location"] = origin + headers["Location"]
    return replace(response, body=body, headers=headers)


@FAULTS.fault(ORDERING)
def if_match_demanded(exchange: Exchange) -> Response:
    """A PATCH needs If-Match (else 428, 412); a GET shows the tag in header and document."""
    return _tagged(exchange, header=True)


@FAULTS.fault(ORDERING)
def etag_in_body(exchange: Exchange) -> Response:
    """A PATCH needs If-Match; the tag is in the document only (@odata.etag), in no header."""
    return _tagged(exchange, header=False)


def _tagged(exchange: Exchange, *, header: bool) -> Response:
    def tag(response: Response) -> str:
        return f'"{zlib.crc32(response.body):08x}"'

    if exchange.request.method == "PATCH" and exchange.occurs():
        current_response = exchange.go(method="GET", body=b"", query="")
        expected_tag = exchange.request.headers.get("if-match")
        if expected_tag is None:
            return Refusal(428, "PreconditionRequired", "If-Match is missing.").response()
        if expected_tag not in ("*", tag(current_response)):
            return Refusal(412, "PreconditionFailed", "The resource has changed.").response()
    response = exchange.go()
    if not exchange.reads or document(response) is None:
        return response
    value = tag(response)
    tagged_response = changed(response, lambda content: content.update({"@odata.etag": value}))
    return replace(tagged_response, headers={"ETag": value}) if header else tagged_response


# Errors

_ERROR_FORMS: dict[str, Any] = {
    "html": b"<!DOCTYPE html><html><body><h1>Error</h1><p>%s</p></body></html>",
    "text": b"%s",
    "empty": b"",
}


@FAULTS.fault(READING, form="html")
def odd_errors(exchange: Exchange) -> Response:
    """Errors are in another form than DSP0266's: html, text, list, flat, null, or empty."""
    response = exchange.go()
    if response.status < 400 or not exchange.occurs():
        return response
    error = orjson.loads(response.body)["error"] if response.body else {"message": "Failed."}
    words, form = error["message"], exchange["form"]
    if form in _ERROR_FORMS:
        body = _ERROR_FORMS[form]
        filled = body.replace(b"%s", words.encode())
        return replace(response, body=filled, type="text/html" if form == "html" else "text/plain")
    forms = {"list": [words], "flat": {"code": response.status, "message": words}, "null": None}
    return json(forms[form], response.status, response.headers)


@FAULTS.fault(ORDERING, status=500, orders=[], message="The operation failed.")
def order_fails(exchange: Exchange) -> Response:
    """An order is answered with an error, and has no effect."""
    if exchange.orders(*exchange["orders"]) and exchange.occurs():
        return Refusal(exchange["status"], "GeneralError", exchange["message"]).response()
    return exchange.go()


@FAULTS.fault(ORDERING, status=500, orders=[])
def order_fails_late(exchange: Exchange) -> Response:
    """An order is answered with an error, although it has been applied."""
    response = exchange.go()
    if exchange.orders(*exchange["orders"]) and exchange.occurs():
        return Refusal(exchange["status"], "GeneralError", "The operation failed.").response()
    return response


@FAULTS.fault(ORDERING, orders=[])
def order_without_effect(exchange: Exchange) -> Response:
    """An order is answered with 204, and has no effect."""
    if exchange.orders(*exchange["orders"]) and exchange.occurs():
        order_text = f"{exchange.request.method} {exchange.path}"
        exchange.machine.record("redfish", "order ignored", order_text)
        return Response(204)
    return exchange.go()


# Sessions


@FAULTS.fault(ORDERING, most=1)
def session_limit(exchange: Exchange) -> Response:
    """A login beyond so many sessions is refused with 503 (RAC0218), as by Dell's iDRAC."""
    login = exchange.request.method == "POST" and exchange.path == SESSIONS
    if login and len(exchange.machine.sessions) >= exchange["most"] and exchange.occurs():
        return Refusal(503, "RAC0218", "The maximum number of user sessions is reached.").response()
    return exchange.go()


@FAULTS.fault(ORDERING, seconds=2.0)
def sessions_expire(exchange: Exchange) -> Response:
    """A session ends so many seconds after its login: 401."""
    sessions, births = exchange.machine.sessions, exchange.memory
    for number in [number for number, expires_at in births.items() if time() >= expires_at]:
        sessions.pop(number, None)
        del births[number]
    response = exchange.go()
    if exchange.path == SESSIONS and response.status == 201 and exchange.occurs():
        births[next(reversed(sessions))] = time() + exchange["seconds"]
    return response


@FAULTS.fault(ORDERING)
def sessions_absent(exchange: Exchange) -> Response:
    """There is no SessionService: only Basic authentication works."""
    if exchange.path.startswith(f"{ROOT}/SessionService"):
        return Refusal(404, "ResourceMissingAtURI", "There are no sessions.").response()

    def strip(content: dict[str, Any]) -> None:
        content.pop("SessionService", None)
        content["Links"] = {}

    return changed(exchange.go(), strip) if exchange.path == ROOT else exchange.go()
