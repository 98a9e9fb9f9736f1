"""
TCP proxies with injectable network faults.

Every process of a site reaches database and broker through its own proxies, so that a fault can be
limited to one process; one more proxy is the load balancer of the API processes.
`python -m tests.chaos.tcp_proxy FILE` starts the proxies of a JSON file
{name: {"port": 7, "to": [path or port]}}; its control port takes a JSON line per change of mode:
[name, mode].

Modes: "whole": forward; "cut": abort all connections and refuse new ones; "silent": hold back all
bytes until the mode is "whole" again; "lost": drop all bytes, and never use the connections of that
time again, not even to close them: only connections made after "whole" work.
"""

import asyncio
import json
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

#: Most seconds for one end to accept a connection.
CONNECT = 2.0


class End(asyncio.Protocol):
    """One end of a proxied connection; forwards what it receives to the other end."""

    def __init__(self, proxy):
        self.proxy, self.other, self.transport = proxy, None, None
        self.lost = False
        self.early = b""  # received before the other end was connected: Python 3.11.2 reads on

    def connection_made(self, transport):
        self.transport = transport
        self.proxy.ends.add(self)
        self.obey()
        if self.other is None and not self.lost:
            self.proxy.begin(self)

    def data_received(self, data):
        if self.other is None:
            self.early += data
        elif not self.lost:
            self.other.transport.write(data)

    def connection_lost(self, _error):
        self.proxy.ends.discard(self)
        if self.lost:
            return
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()

    def pause_writing(self):
        if self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self):
        if self.other.transport is not None:
            self.other.obey()

    def obey(self):
        """Apply the mode of the proxy."""
        self.lost = self.lost or self.proxy.mode == "lost"
        if self.proxy.mode == "cut":
            self.transport.abort()
        elif self.lost:
            self.transport.resume_reading()  # and drop what is read
        elif self.proxy.mode == "silent" or self.other is None:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()


class Proxy:
    def __init__(self, to):
        self.to, self.mode, self.turn = to, "whole", 0
        self.ends, self.calls = set(), set()

    def begin(self, near):
        """Connect a new client to the target."""
        call = asyncio.ensure_future(self.call(near))
        self.calls.add(call)
        call.add_done_callback(self.calls.discard)

    async def call(self, near):
        loop = asyncio.get_running_loop()
        self.turn += 1
        for place in (self.to * 2)[self.turn % len(self.to) :][: len(self.to)]:
            far = End(self)
            far.other = near
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(CONNECT):
                    if isinstance(place, int):
                        await loop.create_connection(lambda far=far: far, "127.0.0.1", place)
                    else:
                        await loop.create_unix_connection(lambda far=far: far, place)
                near.other = far
                far.lost = near.lost
                if near.transport.is_closing():
                    far.transport.close()
                else:
                    if near.early and not near.lost:
                        far.transport.write(near.early)
                    near.obey()
                return
        near.transport.abort()

    def be(self, mode):
        self.mode = mode
        for end in list(self.ends):
            end.obey()


async def serve(plan):
    loop = asyncio.get_running_loop()
    control = plan.pop("control")
    proxies = {name: Proxy(entry["to"]) for name, entry in plan.items()}
    for name, proxy in proxies.items():
        await loop.create_server(partial(End, proxy), "127.0.0.1", plan[name]["port"], backlog=1000)

    async def obey(reader, writer):
        while line := await reader.readline():
            name, mode = json.loads(line)
            proxies[name].be(mode)
            writer.write(b"done\n")

    server = await asyncio.start_server(obey, "127.0.0.1", control)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(json.loads(Path(sys.argv[1]).read_text())))
