"""
Program: imports the service, and runs functions of it in forks of itself. See tests.support.programs.

It has a single thread, so that forking is safe. Each order is a message on its standard input, a
socket, with the open files of the program: standard input, output and error, and a socket for its
events: `{"pid": 7}` when it starts, `{"status": 0, "cpu": 1.5}` when it has ended.
"""

import importlib
import json
import os
import resource
import select
import signal
import socket
import sqlite3
import sys
import traceback
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from app.db import schema
from workers.supervisor import roles
from workers.supervisor.children import Children, fork

#: Modules that programs need, besides those that `ingot up` imports before it forks; the last three
#: are imported late, by typer and by app.db.schema.
MODULES = (
    "workers.cli", "app.cli.node_commands.nodes", "app.db.diagnosis", "app.db.schema", "app.rows.data_keys",
    "pydantic.type_adapter", "alembic.command", "alembic.config",
)  # fmt: skip
#: Most bytes of an order: arguments and environment of a program.
LONGEST = 1 << 17


def serve():
    """Fork programs until the end of the orders; then kill those that are left."""
    orders = socket.socket(fileno=os.dup(0))
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    for name in (*roles.PRELOAD, *MODULES):
        importlib.import_module(name)
    copy_new_databases()
    wake, woken = socket.socketpair()
    for end in (wake, woken):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken.fileno())
    running = {}  # pid -> socket for the program's events
    while True:
        ready = select.select([orders, wake], [], [])[0]
        if wake in ready:
            wake.recv(1000)
            reap(running)
        if orders in ready:
            message, files, *_ = socket.recv_fds(orders, LONGEST, 4)
            if not message:
                break
            events = socket.socket(fileno=files.pop())
            pid = fork(lambda message=message, files=files: become(json.loads(message), files))
            for file in files:
                os.close(file)
            running[pid] = events
            events.send(json.dumps({"pid": pid}).encode())
    Children().kill_orphans()


def copy_new_databases():
    """Let programs copy a new SQLite database: migrating it would be a quarter of a start."""
    migrate = schema.upgrade
    with TemporaryDirectory() as folder:
        template = Path(folder, "ingot.db")
        migrate(f"sqlite:///{template}")
        with closing(sqlite3.connect(template)) as database:  # all of it into the one file
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        content = template.read_bytes()

    def upgrade(url):
        scheme, _, name = url.partition(":///")
        path = Path(name)
        if scheme == "sqlite" and path.parent.is_dir() and not path.exists():
            copied_file = path.with_name(f"{path.name}.{os.getpid()}")
            copied_file.write_bytes(content)
            with suppress(FileExistsError):  # another process was faster
                path.hardlink_to(copied_file)
            copied_file.unlink()
        migrate(url)

    schema.upgrade = upgrade


def reap(running):
    """Report the programs that have ended; kill the rest of their process groups."""
    with suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            # before it is reaped, as afterwards the id of its group may be reused
            with suppress(ProcessLookupError):
                os.killpg(ended.si_pid, signal.SIGKILL)
            _, status, used = os.wait4(ended.si_pid, 0)
            if events := running.pop(ended.si_pid, None):
                cpu = used.ru_utime + used.ru_stime
                answer = {"status": os.waitstatus_to_exitcode(status), "cpu": cpu}
                with suppress(OSError), events:  # it may not be awaited any more
                    events.send(json.dumps(answer).encode())


def become(order, files):
    """Turn this process into the program of an order."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environ"])
    name, _, function = order["target"].partition(":")
    try:
        module = importlib.import_module(name)
        sys.argv = [module.__file__, *order["argv"]]
        getattr(module, function)(*order["arguments"])
    except Exception:  # as the interpreter does
        traceback.print_exc()
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(serve())
