"""Programs that end with their parent, in a terminal and without one."""

import os
import pty
import select
import signal
import subprocess
import sys

from app.process.parent_death import tied

#: Print whether this process leads a session, and whether it has a controlling terminal.
SESSION = """
import os
try:
    os.close(os.open("/dev/tty", os.O_RDWR))
    terminal = True
except OSError:
    terminal = False
print(os.getsid(0) == os.getpid(), terminal, flush=True)
"""
#: Start a tied program, print its pid, and wait.
PARENT = """
import subprocess, sys
from app.process.parent_death import tied
child = subprocess.Popen(tied([sys.executable, "-c", "import time; time.sleep(60)"]))
print(child.pid, flush=True)
child.wait()
"""


def test_a_program_with_a_terminal_leads_a_session_with_it():
    terminal, other = pty.openpty()
    try:
        command = tied([sys.executable, "-c", SESSION])
        output = subprocess.run(command, stdin=other, stdout=subprocess.PIPE, check=True).stdout
    finally:
        os.close(terminal)
        os.close(other)
    assert b"True True\n" == output


def test_a_program_without_a_terminal_stays_in_the_session_of_its_parent():
    command = tied([sys.executable, "-c", SESSION])
    output = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    assert output.stdout.startswith(b"False ")


def test_a_program_is_killed_when_its_parent_ends():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE)
    with parent, os.fdopen(os.pidfd_open(int(parent.stdout.readline()))) as child:
        parent.kill()
        assert signal.SIGKILL == -parent.wait()
        ended, _, _ = select.select([child], [], [], 10)
    assert ended
