"""The API's processes: the configuration of granian."""

import logging

from granian.log import LogLevels, configure_logging

from app.server import processes


def test_granian_closes_no_handlers_and_passes_its_records_on():
    closed = []

    class Handler(logging.NullHandler):
        def close(self):
            closed.append(self)
            super().close()

    handler = Handler()
    configure_logging(LogLevels.error, processes.LOGGING)
    assert handler not in closed
    for name in ("_granian", "granian.access"):
        assert logging.getLogger(name).propagate
        assert not logging.getLogger(name).handlers
