"""Shell completion of commands, options and names of nodes."""

from enum import StrEnum

import typer
from typer.completion import (  # type: ignore[attr-defined]  # not exported, in its own words
    completion_init,
    get_completion_script,
)

#: Environment variable with the shell's request for completions.
VARIABLE = "_INGOT_COMPLETE"


class Shell(StrEnum):
    """Supported shells."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Shell) -> None:
    """Print the completion script of a shell, as in `eval "$(ingot completion bash)"`."""
    script = get_completion_script(prog_name="ingot", complete_var=VARIABLE, shell=shell)
    typer.echo(script)


def answer_shells() -> None:
    """Enable the response to requests in `VARIABLE`."""
    completion_init()
