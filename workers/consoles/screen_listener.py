"""The TCP port of a graphical console, as for nova-novncproxy: a VNC server without a password."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing

from app.observe import log
from drivers.core.errors import HardwareError
from drivers.net import rfb
from drivers.net.rfb_login import LOGIN_TIME, Connection, Tcp
from workers.consoles.listener import Listener

logger = log.get(__name__)

#: Bytes that are read at once.
PIECE = 32 << 10


class ScreenListener(Listener):
    """
    The port of a graphical console.

    connect: connects to the VNC server of the console, for one connection.
    read_only: whether keys and pointer are dropped.
    """

    def __init__(
        self,
        node: str,
        allowed: tuple[str, ...],
        connect: Callable[[], Awaitable[Connection]],
        *,
        read_only: bool,
    ) -> None:
        super().__init__(node, allowed)
        self._connect, self._read_only = connect, read_only

    def _protocol(self) -> asyncio.BaseProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._serve)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection until one of its sides ends it."""
        address = self.open(writer.transport)
        if address is None:
            return
        reason = ""
        try:
            await self._pass_on(Tcp(reader, writer))
        except (HardwareError, rfb.Malformed, OSError) as error:
            reason = str(error) or type(error).__name__
        except TimeoutError:
            reason = "the viewer is too slow"
        finally:
            writer.transport.abort()
            self.closed(writer.transport)
        if reason:
            logger.info("console.ended", node=self.node, address=address, reason=reason)

    async def _pass_on(self, viewer: Tcp) -> None:
        """Raises HardwareError, Malformed, OSError, TimeoutError."""
        handshake = rfb.Viewer()
        await viewer.write(rfb.VERSION)
        async with asyncio.timeout(LOGIN_TIME):
            messages: list[rfb.Message] = []
            while not handshake.is_ready:
                data = await viewer.read(PIECE)
                if not data:
                    return
                answer, messages = handshake.feed(data)
                if answer:
                    await viewer.write(answer)
        with closing(await self._connect()) as server:
            await viewer.write(server.init)
            await self._send(server, messages)
            directions = (
                asyncio.create_task(self._pass_input(viewer, handshake, server)),
                asyncio.create_task(_pass_output(server, viewer)),
            )
            try:
                await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for direction in directions:
                    direction.cancel()
                results = await asyncio.gather(*directions, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _pass_input(self, viewer: Tcp, handshake: rfb.Viewer, server: Connection) -> None:
        while data := await viewer.read(PIECE):
            await self._send(server, handshake.feed(data)[1])

    async def _send(self, server: Connection, messages: list[rfb.Message]) -> None:
        for message in messages:
            if not (self._read_only and message.is_input):
                await server.stream.write(message.data)


async def _pass_output(server: Connection, viewer: Tcp) -> None:
    while data := await server.stream.read(PIECE):
        await viewer.write(data)
