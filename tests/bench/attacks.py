"""Attacks on the API by other hosts: requests that waste threads, memory or processor time."""

import asyncio
from base64 import b64encode

from tests.bench.crowd import Crowd, body_of, connected, head, status_of

#: Seconds between two writes or reads of a slow client, and bytes of its receive buffer.
SLOW, BUFFER = 1.0, 4096
#: Bytes of the largest report.
REPORT_SIZE = 16 << 20


async def slow_body(site, source, _number):
    """Send a body of 1,000 bytes, one a second."""
    async with connected(site, source) as (reader, writer):
        writer.write(head("POST", "/v1/continue_inspection", *body_of(1000)))
        answered = asyncio.ensure_future(status_of(reader))
        while not answered.done():
            writer.write(b" ")
            await asyncio.wait((answered,), timeout=SLOW)
        return answered.result()


async def slow_reader(site, source, _number):
    """Read the longest answer that needs no credentials, 512 bytes a second."""
    async with connected(site, source, BUFFER) as (reader, writer):
        writer.write(head("GET", "/openapi.json"))
        status = await status_of(reader)
        while await reader.read(512):  # noqa: ASYNC110 - the pace of the attack
            await asyncio.sleep(SLOW)
        return status


async def wrong_password(site, source, number):
    async with connected(site, source) as (reader, writer):
        user, _ = site.account
        writer.write(head("GET", "/v1/nodes", basic(user, f"wrong {number}")))
        return await status_of(reader)


async def long_poll(site, source, _number):
    async with connected(site, source) as (reader, writer):
        path = f"/v1/nodes/{site.waiting}/states?wait=600"
        writer.write(head("GET", path, basic(*site.account)))
        return await status_of(reader)


async def all_nodes(site, source, _number):
    """Read the details of all nodes, as a tenant with credentials."""
    async with connected(site, source) as (reader, writer):
        writer.write(head("GET", "/v1/nodes/detail", basic(*site.account)))
        return await status_of(reader)


async def large_report(site, source, _number):
    """Send the report of an unknown machine, as large as one may be, with very many values."""
    async with connected(site, source) as (reader, writer):
        writer.write(head("POST", "/v1/continue_inspection", *body_of(len(REPORT))))
        answered = asyncio.ensure_future(status_of(reader))
        for at in range(0, len(REPORT), 1 << 20):
            writer.write(REPORT[at : at + (1 << 20)])
            drained = asyncio.ensure_future(writer.drain())
            await asyncio.wait((answered, drained), return_when=asyncio.FIRST_COMPLETED)
            if answered.done():
                drained.cancel()
                break
        return await answered


def basic(user, password):
    """Return the header of HTTP basic authentication."""
    return f"Authorization: Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


def _report():
    begin = b'{"inventory": {"interfaces": [{"mac_address": "52:54:00:ff:ff:ff"}], "values": ['
    end = b"0]}}"
    return begin + b"0," * ((REPORT_SIZE - len(begin + end)) // 2) + end


REPORT = _report()

#: Name of an attack -> its clients.
ATTACKS = {
    "slow bodies": Crowd(slow_body, 200, "127.0.0.11"),
    "slow readers": Crowd(slow_reader, 200, "127.0.0.12"),
    "wrong passwords": Crowd(wrong_password, 200, "127.0.0.13"),
    "long polls": Crowd(long_poll, 500, "127.0.0.14"),
    "16 MiB reports": Crowd(large_report, 16, "127.0.0.15"),
    "long lists": Crowd(all_nodes, 32, "127.0.0.16"),
    # a tenant at the address of the operator, as behind one proxy that is not listed
    "long lists, same address": Crowd(all_nodes, 32, "127.0.0.2"),
}
