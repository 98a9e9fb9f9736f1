"""What a shell reads to complete commands, options, and the names of nodes."""

from enum import StrEnum

import typer
from typer.completion import (  # type: ignore[attr-defined]  # not exported, in its own words
    completion_init,
    get_completion_script,
)

#: Through this variable the shell asks us for what a word may become.
VARIABLE = "_INGOT_COMPLETE"


class Shell(StrEnum):
    """The shells that completion is written for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Shell) -> None:
    """Print the completion of a shell, as in `eval "$(ingot completion bash)"`."""
    script = get_completion_script(prog_name="ingot", complete_var=VARIABLE, shell=shell)
    typer.echo(script)


def answer_shells() -> None:
    """From now on, a command that a shell calls through `VARIABLE` answers it."""
    completion_init()
