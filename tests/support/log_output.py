"""Standard error of a test, with the log written to it as by a command."""

import io
import logging
import sys
from contextlib import contextmanager

from app.observe import log


@contextmanager
def logged(monkeypatch, form):
    """
    Set up the log; yield a function that returns what was written to standard error.

    form: of the lines, json or text.
    """
    output = io.StringIO()
    monkeypatch.setattr(sys, "stderr", output)
    with monkeypatch.context() as patch:
        patch.setattr(logging.root, "handlers", [])
        log.set_up(form=form)
        yield output.getvalue
