"""The index of the product's files: each module with the first sentence of its docstring."""

import ast
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from docs.markdown import Lines, code, table

ROOT = Path(__file__).parents[1]
PACKAGES = ("app", "workers", "drivers", "migrations")


def files() -> Lines:
    yield "# Files\n"
    yield "Each module with the first sentence of its docstring. [architecture.md](architecture.md)"
    yield "describes the folders and the ways through them.\n"
    for folder, modules in groupby(_modules(), key=lambda module: module[0].parent):
        yield f"## {folder}\n"
        yield from table(
            ("file", "contents"), ((code(path.name), sentence) for path, sentence in modules)
        )


def _modules() -> Iterator[tuple[Path, str]]:
    """Yield the path and the sentence of each module that has code, folder by folder."""
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    for path in sorted(paths, key=lambda path: (path.parent, path.name)):
        tree = ast.parse(path.read_text())
        if path.name != "__init__.py" or len(tree.body) > 1:
            yield path.relative_to(ROOT), _sentence(ast.get_docstring(tree) or "")


def _sentence(docstring: str) -> str:
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    return re.split(r"(?<=\.) (?=[A-Z`])", paragraph, maxsplit=1)[0].rstrip(":")
