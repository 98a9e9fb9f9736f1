"""Objects that forked processes inherit."""

import os
from dataclasses import replace

from app.config.settings import Settings
from app.process.before_fork import BuiltBeforeFork


@BuiltBeforeFork
def made(settings):
    """Make an object."""
    return [settings]


def test_without_a_fork_each_call_makes_an_object():
    settings = Settings()
    assert [settings] == made(settings)
    assert made(settings) is not made(settings)
    assert "Make an object." == made.__doc__


def test_a_forked_process_inherits_the_object_of_the_same_settings_only():
    inherited, settings = BuiltBeforeFork(made), Settings()
    original = inherited.before_fork(settings)
    equal_settings = replace(settings)
    pid = os.fork()
    if not pid:
        right = inherited(settings) is original and inherited(equal_settings) is not original
        os._exit(0 if right else 1)
    assert (pid, 0) == os.waitpid(pid, 0)
