"""Optional modules of libraries, which these import wherever they are installed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hidden(module: str) -> Iterator[None]:
    """Hide a module from libraries that are imported within, as its memory is for nothing here."""
    missing = module not in sys.modules
    if missing:
        sys.modules[module] = None  # type: ignore[assignment] # an import of it fails
    try:
        yield
    finally:
        if missing:
            del sys.modules[module]
