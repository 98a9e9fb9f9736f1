"""
Wires: TCP connections that can be cut, between one process and what it needs.

Every process of a site has wires of its own to database and broker, so that one of them can be out
of reach for it alone; one more stands before the API processes and gives each connection to one
that is up. `python -m tests.chaos.wires FILE` lays those of a JSON file {name: {"port": 7, "to":
[path or port]}}; orders come through its control port, a JSON line each: [name, mode].

Modes: "whole"; "cut": whatever was connected is cut, nobody is let in; "silent": nobody hears
anything any more, and what was said meanwhile arrives when the wire is whole again; "lost": the
same, but it never arrives, and no connection of before or meanwhile ever says anything again, not
even its end: only new ones do, when the wire is whole again.
"""

import asyncio
import json
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

#: Seconds for one end to take a connection.
CONNECT = 2.0


class End(asyncio.Protocol):
    """One end of a connection; what it hears, the other one says."""

    def __init__(self, wire):
        self.wire, self.other, self.transport = wire, None, None
        self.lost = False

    def connection_made(self, transport):
        self.transport = transport
        self.wire.ends.add(self)
        self.obey()
        if self.other is None and not self.lost:
            self.wire.begin(self)

    def data_received(self, data):
        if not self.lost:
            self.other.transport.write(data)

    def connection_lost(self, _error):
        self.wire.ends.discard(self)
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
        """Hear, or hear nothing, as the wire's mode says."""
        self.lost = self.lost or self.wire.mode == "lost"
        if self.wire.mode == "cut":
            self.transport.abort()
        elif self.lost:
            self.transport.resume_reading()  # and nobody learns of it
        elif self.wire.mode == "silent" or self.other is None:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()


class Wire:
    def __init__(self, to):
        self.to, self.mode, self.turn = to, "whole", 0
        self.ends, self.calls = set(), set()

    def begin(self, near):
        """Somebody has called: call the other end."""
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
                    near.obey()
                return
        near.transport.abort()

    def be(self, mode):
        self.mode = mode
        for end in list(self.ends):
            end.obey()


async def lay(plan):
    loop = asyncio.get_running_loop()
    control = plan.pop("control")
    wires = {name: Wire(each["to"]) for name, each in plan.items()}
    for name, wire in wires.items():
        await loop.create_server(partial(End, wire), "127.0.0.1", plan[name]["port"], backlog=1000)

    async def obey(reader, writer):
        while line := await reader.readline():
            name, mode = json.loads(line)
            wires[name].be(mode)
            writer.write(b"done\n")

    server = await asyncio.start_server(obey, "127.0.0.1", control)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(lay(json.loads(Path(sys.argv[1]).read_text())))
