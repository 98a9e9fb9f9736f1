"""Memory that forks share with their parent."""

import gc
import sys

from app import memory


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
