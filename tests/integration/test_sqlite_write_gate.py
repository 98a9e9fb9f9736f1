"""The gate of SQLite's writers, and a writer that is suspended within it."""

import os
import signal
import time

from sqlalchemy import text

from app.db import connections, sqlite, transactions


def test_a_process_suspended_while_it_writes_does_not_block_other_writers(tmp_path):
    url = f"sqlite:///{tmp_path / 'ingot.db'}"
    engine = connections.connect(url)
    with transactions.transaction(engine) as session:
        session.execute(text("CREATE TABLE t (x)"))
    engine.dispose()
    child = os.fork()
    if child == 0:
        child_engine = connections.connect(url)
        with transactions.transaction(child_engine) as session:
            session.execute(text("INSERT INTO t VALUES (1)"))
            os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(60)
        os._exit(0)
    try:
        os.waitpid(child, os.WUNTRACED)
        assert child == sqlite.writer(url)

        assert sqlite.release_stopped_writer(url)

        assert not sqlite.release_stopped_writer(url)
        os.waitpid(child, os.WUNTRACED)  # it is suspended again
        with transactions.transaction(engine) as session:
            session.execute(text("INSERT INTO t VALUES (2)"))
        with transactions.reading(engine) as session:
            assert [1, 2] == sorted(session.scalars(text("SELECT x FROM t")))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        engine.dispose()
