"""
The address of the API for agents: a load balancer, which asks each backend for its health.

    python -m tests.hosts.balancer ADDRESS PORT BACKEND...

A new connection goes to the backends in turn that have answered the last question of a second ago.
When a backend does not answer while another one does, its connections are cut, so that agents try
again. If none answers in time, the machine is busy, and all are used.
"""

import asyncio
import itertools
import sys
from contextlib import suppress

#: Seconds between two questions, and for an answer.
PAUSE, PATIENCE = 1.0, 2.0
QUESTION = b"GET /healthcheck HTTP/1.1\r\nHost: balancer\r\nConnection: close\r\n\r\n"


class Balancer:
    def __init__(self, backends, port):
        self._backends, self._port, self._turn = backends, port, itertools.count()
        self._healthy, self._open = set(backends), {backend: set() for backend in backends}

    async def watch(self, backend):
        while True:
            try:
                async with asyncio.timeout(PATIENCE):
                    reader, writer = await asyncio.open_connection(backend, self._port)
                    writer.write(QUESTION)
                    is_well = b" 200 " in await reader.readline()
                    writer.close()
            except OSError:  # including TimeoutError
                is_well = False
            self.note(backend, is_well=is_well)
            await asyncio.sleep(PAUSE)

    def note(self, backend, *, is_well):
        """Note whether a backend has answered in time."""
        if is_well:
            self._healthy.add(backend)
            return
        self._healthy.discard(backend)
        if self._healthy:
            for end in self._open[backend]:
                end.transport.abort()

    async def serve(self, reader, writer):
        backends = sorted(self._healthy) or self._backends
        backend = backends[next(self._turn) % len(backends)]
        try:
            async with asyncio.timeout(PATIENCE):
                there, back = await asyncio.open_connection(backend, self._port)
        except OSError:
            writer.close()
            return
        ends = {writer, back}
        self._open[backend] |= ends
        try:
            await asyncio.gather(_pass(reader, back), _pass(there, writer))
        finally:
            self._open[backend] -= ends


async def _pass(source, sink):
    with suppress(OSError):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
    with suppress(OSError):
        sink.close()


async def main(address, port, *backends):
    balancer = Balancer(backends, int(port))
    watching = [asyncio.create_task(balancer.watch(backend)) for backend in backends]
    server = await asyncio.start_server(balancer.serve, address, int(port))
    async with server:
        await asyncio.gather(server.serve_forever(), *watching)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
