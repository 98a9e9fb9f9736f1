"""Memory that forks share with their parent."""

import gc
import subprocess
import sys
from pathlib import Path

from app import memory

ROOT = Path(__file__).parents[3]


def test_objects_that_exist_before_a_fork_are_not_collected():
    try:
        memory.share()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_names_of_attributes_are_not_referred_to_after_a_fork():
    name = "an_attribute_that_nothing_else_has"
    looked_up = type("LookedUp", (), {name: 1})
    before = sys.getrefcount(name)
    assert getattr(looked_up, name)
    assert sys.getrefcount(name) > before
    try:
        memory.share()
    finally:
        gc.unfreeze()
    assert sys.getrefcount(name) == before


def test_new_objects_are_not_put_between_those_that_exist():
    size = 64 - sys.getsizeof(b"")
    rows = [bytes(size) for _ in range(2000)]
    gaps = {id(each) for each in rows[::2]}
    del rows[::2]
    try:
        memory.share()
        new = [bytes(size) for _ in range(100)]
    finally:
        gc.unfreeze()
    assert not gaps & {id(each) for each in new}


PAGES = """
import hashlib, re, sqlite3, ssl
from pathlib import Path
from app import memory

def of_files():
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"RssFile:\\s+(\\d+)", status)[1])

before = of_files()
memory.share()
after = of_files()
assert hashlib.sha256(b"").hexdigest().startswith("e3b0c442"), "libraries remain usable"
assert sqlite3.connect(":memory:").execute("select 1").fetchone() == (1,)
print(before, after)
"""


def test_pages_of_libraries_are_returned_before_a_fork():
    done = subprocess.run(
        [sys.executable, "-c", PAGES], capture_output=True, text=True, check=True, cwd=ROOT
    )
    before, after = map(int, done.stdout.split())
    assert after < before / 2
