"""PgBouncer in front of a PostgreSQL server of the tests."""

import os
import shutil
import socket
import subprocess
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from app.process.parent_death import die_with_parent
from tests.support import debian
from tests.support.fleet import until
from tests.support.ports import free_port
from tests.support.postgresql import ACCOUNT, name_of
from tests.support.prerequisites import not_run


@contextmanager
def serving(folder, server, url, mode, size=5):
    """
    Run PgBouncer for a database; yield the database's URL through it.

    mode: session or transaction. size: connections to the server.
    """
    program = debian.provide(
        lambda: shutil.which("pgbouncer", path="/usr/sbin:/usr/bin"), "pgbouncer"
    )
    if program is None:
        not_run("no PgBouncer on this machine")
    port, name = free_port(), name_of(url)
    users, settings = Path(folder, "users.txt"), Path(folder, "pgbouncer.ini")
    users.write_text(f'"{ACCOUNT}" ""\n')
    settings.write_text(
        f"[databases]\n{name} = host={server.folder} dbname={name}\n[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = trust\n"
        f"auth_file = {users}\npool_mode = {mode}\ndefault_pool_size = {size}\n"
    )
    account = {"user": ACCOUNT, "group": ACCOUNT} if os.geteuid() == 0 else {}
    os.chmod(folder, 0o755)
    with Path(folder, "pgbouncer.out").open("w") as out:
        process = subprocess.Popen(
            [program, settings], stdout=out, stderr=out, **account,
            preexec_fn=partial(die_with_parent, os.getpid()),  # noqa: PLW1509
        )  # fmt: skip
    try:
        until(lambda: _listens(port), f"PgBouncer; {Path(folder, 'pgbouncer.out').read_text()}")
        yield f"postgresql://{ACCOUNT}@127.0.0.1:{port}/{name}"
    finally:
        process.kill()
        process.wait()


def _listens(port):
    with closing(socket.socket()) as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
