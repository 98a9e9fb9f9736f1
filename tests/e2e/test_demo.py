"""`make demo`, as a user and as CI runs it."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.processes import inside, marked

ROOT = Path(__file__).parents[2]
TIMEOUT = 120


class Demo:
    """One run of the demo, with its files under `folder`."""

    def __init__(self, folder, *arguments):
        folder.mkdir()
        self.folder = folder
        self.mark = f"DEMO_MARK={folder}-{time.monotonic_ns()}"
        name, _, value = self.mark.partition("=")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "workers.demo", "--pace", "0.2", *arguments],
            cwd=ROOT,
            # settings of a running service must not reach the demo
            env={**os.environ, name: value, "TMPDIR": str(folder), "INGOT_API_PORT": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def processes(self):
        """Pids of the living processes that the demo or its descendants have started."""
        # Redis lacks the mark: it overwrites its environment
        return marked(self.mark) | inside(self.folder)

    def read_until(self, text):
        """Read the output up to the line that has `text`."""
        read = []
        for line in self.process.stdout:
            read.append(line)
            if text in line:
                return "".join(read)
        raise AssertionError("".join(read))

    def end(self):
        """Wait for the end; return (exit status, rest of the output)."""
        out, _ = self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode, out


@contextmanager
def demo(folder, *arguments):
    run = Demo(folder, *arguments)
    try:
        yield run
    finally:
        for pid in {run.process.pid, *run.processes()}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        run.process.communicate()


def gone(run):
    """Check that a run has left no process and no file."""
    assert set() == run.processes()
    assert [] == list(run.folder.iterdir())


def test_two_concurrent_demos_lose_no_machine_and_leave_nothing_behind(tmp_path):
    once = demo(tmp_path / "once", "--once", "--machines", "4")
    stays = demo(tmp_path / "stays", "--machines", "2")
    with once as first_demo, stays as second:
        status, out = first_demo.end()
        assert 0 == status, out
        for phase in ("enrol", "verify", "clean", "deploy", "give back"):
            assert re.search(rf"^{phase} +4 of 4 +[\d.]+ s +[\d.]+ s$", out, re.MULTILINE), out
        killed = re.search(r"^(conductor-\d) killed, taken over +(\d) of \2 ", out, re.MULTILINE)
        assert killed, out
        assert int(killed[2]) > 0
        assert f"{killed[1]} started again by the supervisor" in out
        gone(first_demo)

        text = second.read_until("until Ctrl-C")
        assert "2 of 2 machines are active" in text
        url = re.search(r"the service runs at (\S+)", text)[1]
        assert url not in out
        script = "set -e\n" + second.read_until("--wait")  # the commands that it suggests
        process = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
        for expected in ("provision state", "available", "deploy", "power on"):
            assert expected in process.stdout
        second.process.send_signal(signal.SIGINT)
        assert 0 == second.end()[0]
        gone(second)


def test_a_stop_in_the_middle_leaves_nothing_behind(tmp_path):
    with demo(tmp_path / "demo", "--machines", "2") as run:
        run.read_until("enrolled 2 machines")
        run.process.send_signal(signal.SIGTERM)
        status, out = run.end()
        assert 130 == status
        assert out.endswith("demo: stopped\n")
        gone(run)


def test_a_wrong_argument_is_reported_in_one_line(tmp_path):
    with demo(tmp_path / "demo", "--machines", "0") as run:
        status, out = run.end()
        assert (2, "--machines: from 1 to 200") == (status, out.splitlines()[-1][-25:])
