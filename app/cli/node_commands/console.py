"""Commands that open the console of a machine, and show its history."""

import base64
import os
import select
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import orjson
import typer
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection

from app.cli.commands import FOREVER, Node
from app.cli.rest import Api
from app.cli.terminal import times
from app.cli.terminal.errors import Failure, Usage
from app.cli.terminal.machine_output import TerminalFilter, plain
from app.cli.terminal.output import Document, Output
from app.cli.terminal.times import Since, Until
from app.text.sentences import harmless

#: Ctrl-]: ends the command, as that of telnet does.
END = b"\x1d"
#: Seconds between tries to connect again; seconds after which the command gives up.
AGAIN, PATIENCE = 1.0, 120.0
#: Most bytes of a message.
LONGEST = 4096
#: Seconds between looks at the connection while nothing is typed.
GLANCE = 0.2
COLUMNS = ("at", "kind", "conductor", "data")


def open_console(
    api: Api,
    out: Output,
    node: Node,
    *,
    watch: Annotated[bool, typer.Option("--watch", help="Watch only, and type nothing")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Type although another caller does: that one watches")
    ] = False,
    seconds: Annotated[
        float, typer.Option("--for", metavar="SECONDS", min=0, help="End after this time")
    ] = FOREVER,
) -> None:
    """
    Open the console of a machine, to watch and to type; Ctrl-] ends it.

    The console must be enabled. Output is shown without sequences by which the machine could
    control more than the text on the terminal.
    """
    if watch and force:
        raise Usage("--force: not together with --watch")
    _Session(api, node, write=not watch, force=force).run(time.monotonic() + seconds)


def history(
    api: Api,
    out: Output,
    node: Node,
    *,
    since: Since = None,
    until: Until = None,
    operation: Annotated[
        str | None, typer.Option(help="Of the time of an operation: its UUID, or `last`")
    ] = None,
    size: Annotated[int, typer.Option(min=1, help="Most bytes, the newest ones")] = 64 << 10,
    raw: Annotated[
        bool, typer.Option("--raw", help="With the control sequences, for a file")
    ] = False,
) -> None:
    """Show earlier output of the console of a machine, also from before a failure."""
    if operation == "last":
        operations = api.get("nodes", node, "operations")["operations"]
        if not operations:
            raise Failure(f"{node} has had no operation")
        operation = operations[0]["uuid"]
    query = {
        "since": times.iso("--since", since), "until": times.iso("--until", until),
        "operation": operation, "size": size,
    }  # fmt: skip
    answer = api.get("nodes", node, "console", "history", **query)
    records = answer["console_history"]
    for name in answer["missing"]:
        typer.echo(f"conductor {harmless(name)} has not answered; it may have more", err=True)
    if not out.people:
        out.items(records, COLUMNS)
        return
    if not records:
        raise Failure("nothing is kept of this time: the console must be enabled before")
    if answer["cut"]:
        typer.echo("older output is left out; --size shows more", err=True)
    _write_history(records, raw=raw)


def _write_history(records: list[Document], *, raw: bool) -> None:
    """Write output as it was, and changes of the connection as lines of their own."""
    if raw:
        for record in records:
            if record["kind"] == "output":
                typer.echo(base64.b64decode(record["data"]), nl=False)
        return
    pending = b""
    for record in records:
        data = base64.b64decode(record["data"])
        if record["kind"] == "output":
            pending += data
            continue
        typer.echo(plain(pending), nl=False)
        pending = b""
        typer.echo(f"\n--- {record['at'][:19]}Z {harmless(plain(data))}")
    typer.echo(plain(pending))


class _Session:
    """An open console, over connections that follow one another."""

    def __init__(self, api: Api, node: str, *, write: bool, force: bool) -> None:
        self._api, self._node, self._write, self._force = api, node, write, force
        self._position = "0"
        self._holder = ""  # id of this connection
        self._filter = TerminalFilter()
        self._ended = threading.Event()
        self._failed_at: float | None = None

    def run(self, end: float) -> None:
        """Raises Failure: the service refuses it, or is out of reach for too long."""
        with _raw_terminal(self._write) as typed:
            while not self._ended.is_set() and time.monotonic() < end:
                try:
                    self._once(end, typed=typed)
                except (OSError, WebSocketException, Failure) as error:
                    self._wait_after(error)

    def _wait_after(self, error: Exception) -> None:
        """Wait before the next try. Raises Failure: it is the first one, or the last one."""
        now = time.monotonic()
        if self._position == "0" or (self._failed_at and now - self._failed_at > PATIENCE):
            raise error if isinstance(error, Failure) else Failure(str(error)) from error
        self._failed_at = self._failed_at or now
        self._ended.wait(AGAIN)

    def _once(self, end: float, *, typed: bool) -> None:
        """
        Show and type over one connection, until it ends.

        Raises OSError, WebSocketException, Failure: there is none.
        """
        body = {"write": self._write, "after": self._position}
        answer = self._api.request("POST", "nodes", self._node, "console", "tickets", body=body)
        ticket = answer.json()
        if ticket.get("kind") == "graphical":
            raise Failure(
                f"the console of {self._node} is graphical: open the address that"
                f" `ingot node console show {self._node}` returns"
            )
        if self._position == "0":
            self._say(f"{ticket['state']}; Ctrl-] ends")
        path = ("nodes", self._node, "console", "stream")
        with self._api.socket(*path, protocols=ticket["protocols"]) as socket:
            self._failed_at = None
            receiver = threading.Thread(target=self._receive, args=(socket,), daemon=True)
            receiver.start()
            self._type(socket, receiver, end, typed=typed)
        receiver.join()

    def _type(
        self, socket: ClientConnection, receiver: threading.Thread, end: float, *, typed: bool
    ) -> None:
        """Send what is typed, until the connection ends, or the user does."""
        sources = [sys.stdin.fileno()] if typed else []
        with suppress(ConnectionClosed):
            if self._write:
                socket.send(orjson.dumps({"act": "steal" if self._force else "claim"}).decode())
            self._force = False
            while receiver.is_alive() and time.monotonic() < end:
                if not select.select(sources, [], [], GLANCE)[0]:
                    continue
                data = os.read(sources[0], LONGEST)
                if not data:
                    sources = []  # the end of a file: answers of the machine are still shown
                keys, end_key, _ = data.partition(END)
                if keys and self._write:
                    socket.send(keys)
                if end_key:
                    self._ended.set()
                    return

    def _receive(self, socket: ClientConnection) -> None:
        with suppress(ConnectionClosed):
            for message in socket:
                self._show(orjson.loads(message))

    def _show(self, document: dict[str, Any]) -> None:
        self._position = document.get("position", self._position)
        if data := document.get("data"):
            os.write(sys.stdout.fileno(), self._filter.feed(base64.b64decode(data)))
        elif state := document.get("state"):
            self._say(": ".join(filter(None, (state, document.get("reason")))))
        elif "seconds" in document:
            self._holder = document["holder"]
        elif self._write and document.get("holder", self._holder) not in ("", self._holder):
            name = document.get("writer") or "another caller"
            self._say(f"{name} types; --force takes that over")

    @staticmethod
    def _say(text: str) -> None:
        os.write(sys.stderr.fileno(), f"\r\n[console {harmless(text)}]\r\n".encode())


@contextmanager
def _raw_terminal(typed: bool) -> Iterator[bool]:
    """Pass on each key as it is typed; yields whether there is something to type with."""
    if not typed or not sys.stdin.isatty():
        yield True
        return
    import termios  # not on every system
    import tty

    attributes = termios.tcgetattr(sys.stdin)
    try:
        tty.setraw(sys.stdin)
        yield True
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, attributes)
