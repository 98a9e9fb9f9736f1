"""Program: the API without the other roles, as `test_server` starts it."""

import os
import resource

from app import serve
from app.api.feed import slow_clients
from app.config import settings


def main():
    serve.main(settings.load(os.environ))


def with_few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))
    main()


def that_cannot_record():
    """Its processes fail when they start."""
    serve.recording.start = lambda: 1 / 0
    main()


def with_little_patience():
    slow_clients.SILENCE = 2.0
    main()


if __name__ == "__main__":
    main()
