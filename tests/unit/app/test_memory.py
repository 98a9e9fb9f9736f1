"""Memory of processes that fork: preparation for the forks, and release of libraries' pages."""

import gc
import re
import sys
from pathlib import Path

from app import memory


def mapped_files():
    """Resident kB of files that are mapped and not writable."""
    total, counted = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if found := re.match(r"[0-9a-f]+-[0-9a-f]+ (\S+) [^/]*(/?)", line):
            counted = found[2] and "w" not in found[1]
        elif counted and line.startswith("Rss:"):
            total += int(line.split()[1])
    return total


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


def test_released_libraries_are_mapped_again_when_they_run():
    before = mapped_files()
    memory.release_libraries()
    assert mapped_files() < before / 2
    assert re.compile("a+").fullmatch("aaa")
