"""
Relay of ports of loopback at another address of this host, for machines on wires.

    python -m tests.lab.relay ADDRESS PORT...
"""

import asyncio
import sys
from contextlib import suppress

CHUNK = 1 << 16


async def _copy(reader, writer):
    with suppress(OSError):
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
    writer.close()


async def main(address, *ports):
    async def serve(port):
        async def connect(reader, writer):
            inner, outer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_copy(reader, outer), _copy(inner, writer))

        server = await asyncio.start_server(connect, address, port)
        await server.serve_forever()

    await asyncio.gather(*map(serve, ports))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
