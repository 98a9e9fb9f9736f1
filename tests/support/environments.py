"""Virtual environments of services from PyPI, which the tests run as processes of their own."""

import fcntl
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

from tests.support.fleet import ROOT, until
from tests.support.prerequisites import not_run


def installed(name):
    """
    Return the environment with `requirements/NAME.txt`; it is created once per state of that file.

    Skips the test if the packages are not available.
    """
    requirements = ROOT / "requirements" / f"{name}.txt"
    cache = Path("/var/cache/ingot-tests")
    cache.mkdir(mode=0o755, parents=True, exist_ok=True)
    venv = cache / f"{name}-{zlib.crc32(requirements.read_bytes() + sys.version.encode()):08x}"
    with open(cache / "lock", "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not (venv / "ready").exists():
            shutil.rmtree(venv, ignore_errors=True)
            subprocess.run([sys._base_executable, "-m", "venv", venv], check=True)
            install = [venv / "bin" / "pip", "install", "--quiet", "--require-hashes", "-r"]
            if subprocess.run(
                [*install, requirements], check=False, capture_output=True
            ).returncode:
                not_run(f"the packages of requirements/{name}.txt")
            (venv / "ready").touch()
    return venv


def start(scope, command, log, ask, *, away):
    """
    Start a service, until the end of a scope, and wait until it answers.

    log: the file of its output. ask: sends a request; `away` is the error without an answer.
    """
    with open(log, "wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    scope.callback(process.wait, 30)
    scope.callback(process.terminate)

    def answers():
        assert process.poll() is None, log.read_text()[-4000:]
        try:
            ask()
        except away:
            return False
        return True

    until(answers, "the answer of a service")
