"""
The command `ingot`. The operator's commands are clients of the API and start quickly; the commands
that run the service import nearly everything, and only when one of them is used.
"""

import os
import sys
from collections.abc import Sequence

from app.cli import tree
from app.cli.completion import VARIABLE


def main() -> None:
    """The entry point."""
    if tree.knows(_words()):
        tree.operators()(prog_name="ingot")
    else:
        from workers import cli  # imports nearly everything

        cli.main()


def _words() -> Sequence[str]:
    """The command line, or the one that a shell wants completed."""
    if VARIABLE not in os.environ:
        return sys.argv[1:]
    at = os.environ.get("COMP_CWORD")
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    words = line.split()[1:]
    # the word under the cursor may be the beginning of another one
    return words[: int(at) - 1] if at and at.isdecimal() else words


if __name__ == "__main__":
    main()
