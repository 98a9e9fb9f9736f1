"""SQL functions that have a text for each of the two dialects."""

from collections.abc import Callable
from typing import Any

from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


def declare_texts(function: type[FunctionElement[Any]], **templates: str) -> None:
    """
    Declare how a function is compiled.

    templates: dialect -> text of the call; `{0}`, `{1}`, ... are its arguments, `{all}` is their
    list.
    """
    for dialect, template in templates.items():
        compiles(function, dialect)(_compiled_by(template))


def _compiled_by(template: str) -> Callable[..., str]:
    def compiled(element: FunctionElement[Any], compiler: SQLCompiler, **kwargs: object) -> str:
        arguments = [compiler.process(clause, **kwargs) for clause in element.clauses]
        return template.format(*arguments, all=", ".join(arguments))

    return compiled
