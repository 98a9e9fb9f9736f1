"""
Errors of commands, with their exit statuses.

Failure        1   the service refused the request, is unreachable, or the operation failed
├─ Busy          1   too many requests wait already
├─ Usage       2   the command line is wrong; no request was sent
└─ NotYet      3   the operation is not over yet, and has not failed
"""


class Failure(Exception):
    """Error of a command; its message is one line."""

    exit_status = 1


class Busy(Failure):
    """Too many requests of the user wait already."""


class Usage(Failure):
    """The command line is wrong."""

    exit_status = 2


class NotYet(Failure):
    """The awaited result is not available yet."""

    exit_status = 3
