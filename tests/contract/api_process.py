"""Program: the API without the other roles, as `test_server` starts it."""

import os
import resource

from app.api.feed import slow_clients
from app.api.transport import limits
from app.config import settings
from app.server import processes

REFUSED = 3


def main():
    processes.main(settings.load(os.environ))


def with_few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))
    main()


def that_cannot_record():
    """Its processes fail when they start."""
    processes.recording.start = lambda: 1 / 0
    main()


def with_little_patience():
    slow_clients.SILENCE = 2.0
    main()


def with_few_refusals():
    """An address has `REFUSED` refused requests of agents answered in a minute."""
    limits.REFUSED_PER_MINUTE = dict.fromkeys(limits.REFUSED_PER_MINUTE, REFUSED)
    main()


def with_short_backlog():
    processes.BACKLOG = 128
    main()


if __name__ == "__main__":
    main()
