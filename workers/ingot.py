"""
Entry point of the command `ingot`.

The operator's commands are clients of the API and start quickly. The commands that run the service
import nearly all modules, so they are imported only when one of them is used.
"""

import os
import sys
from collections.abc import Sequence

from app.cli import command_tree
from app.cli.completion import VARIABLE


def main() -> None:
    if VARIABLE not in os.environ:
        sys.argv[1:] = command_tree.with_options_last(sys.argv[1:])
    if command_tree.has_command(_words()):
        command_tree.operators()(prog_name="ingot")
    else:
        from workers import cli  # here: it imports nearly all modules

        cli.main()


def _words() -> Sequence[str]:
    """Return the words of the command line, or of the one that the shell completes."""
    if VARIABLE not in os.environ:
        return sys.argv[1:]
    cursor = os.environ.get("COMP_CWORD")
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    arguments = line.split()[1:]
    # the word under the cursor may be incomplete
    return arguments[: int(cursor) - 1] if cursor and cursor.isdecimal() else arguments


if __name__ == "__main__":
    main()
