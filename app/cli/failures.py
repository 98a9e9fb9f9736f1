"""
How commands fail: with one line, and an exit status.

Failure        1   the service refused, is out of reach, or what was asked for failed
├─ Usage       2   the command is not written as it should be; the service was not asked
└─ NotYet      3   nothing failed, but what was waited for is not there
"""


class Failure(Exception):
    """The command failed; the message is one line."""

    exit_status = 1


class Usage(Failure):
    """The command line is wrong."""

    exit_status = 2


class NotYet(Failure):
    """The awaited result is not there yet, and may still come."""

    exit_status = 3
