"""Memory that forks share with their parent."""

import gc
import subprocess
import sys
from pathlib import Path

from app.process import fork_memory

ROOT = Path(__file__).parents[4]


def test_objects_that_exist_before_a_fork_are_not_collected():
    try:
        fork_memory.share()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


PAGES = """
import hashlib, re, sqlite3, ssl
from pathlib import Path
from app.process import fork_memory

def of_files():
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"RssFile:\\s+(\\d+)", status)[1])

before = of_files()
fork_memory.share()
after = of_files()
assert hashlib.sha256(b"").hexdigest().startswith("e3b0c442"), "libraries remain usable"
assert sqlite3.connect(":memory:").execute("select 1").fetchone() == (1,)
print(before, after)
"""


def test_pages_of_libraries_are_returned_before_a_fork():
    process = subprocess.run(
        [sys.executable, "-c", PAGES], capture_output=True, text=True, check=True, cwd=ROOT
    )
    before, after = map(int, process.stdout.split())
    assert after < before / 2
