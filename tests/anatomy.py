"""
Measures of the source tree: sizes, names, wording, layering.

`python -m tests.anatomy` prints the table of docs/architecture.md#measures; `--freeze` records the
number of bindings without a noun per package, tests included, which `tests/unit/test_anatomy.py`
lets only fall.
"""

import ast
import json
import re
import statistics
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from app.config.options import options
from app.config.settings import Settings

ROOT = Path(__file__).parents[1]
PRODUCT = ("app", "workers", "drivers")
#: Packages whose bindings are named by nouns.
NAMED = (*PRODUCT, "docs", "tests")
FROZEN = ROOT / "tests" / "bindings.json"

#: Participles, pronouns and adverbs that stand for the noun of a value: see docs/style.md.
NOT_NOUNS = frozenset(
    {
        "after", "asked", "before", "chosen", "done", "due", "each", "first", "found", "given", "gone",
        "held", "how", "kept", "known", "last", "left", "limits", "made", "more", "most", "named",
        "others", "own", "rest", "said", "seen", "sent", "shown", "stood", "such", "taken", "told",
        "tried", "wanted", "what", "where", "who", "whose", "why", "written",
    }
)  # fmt: skip
#: Marks of a private dialect, in docstrings and comments.
DIALECT = re.compile(
    r"\bthose of\b|\bNone: |\bMost [A-Z\d]|\bis none\b|\bbeside\b|\bbegins? \b|\bstranger|\bin which\b"
)
#: Packages of `drivers` that app and workers may import.
SEAM = ("drivers.core", "drivers.builtin", "drivers.net")


@dataclass
class Function:
    """A function or method; lines: from its first decorator to its last statement."""

    name: str
    lines: int


@dataclass
class Module:
    """A module of the product, parsed."""

    path: Path
    tree: ast.Module = field(repr=False)
    text: str = field(repr=False)

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def package(self) -> str:
        """Two components of the path, such as app/api; a module of its own in app is `app`."""
        return "/".join(self.path.relative_to(ROOT).parts[:-1][:2])

    @cached_property
    def functions(self) -> list[Function]:
        return [
            Function(
                node.name,
                node.end_lineno
                - min([node.lineno, *(item.lineno for item in node.decorator_list)])
                + 1,
            )
            for node in ast.walk(self.tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.end_lineno is not None
        ]

    @cached_property
    def bindings(self) -> list[tuple[str, int]]:
        """Name and line of each variable, attribute and parameter that is set, in no order."""
        targets = [
            (node.id if isinstance(node, ast.Name) else node.attr, node.lineno)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store)
        ]
        parameters = [
            (node.arg, node.lineno) for node in ast.walk(self.tree) if isinstance(node, ast.arg)
        ]
        return targets + parameters

    @cached_property
    def texts(self) -> list[str]:
        """Docstrings, and the comments of attributes and lines."""
        documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        docstrings = [
            ast.get_docstring(node) for node in ast.walk(self.tree) if isinstance(node, documented)
        ]
        comments = re.findall(r"^\s*#:? (.+)$", self.text, re.MULTILINE)
        return [text for text in docstrings if text] + comments

    @cached_property
    def imports(self) -> list[str]:
        """The dotted name of each imported module or member."""
        names: list[str] = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                names += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names += [f"{node.module}.{alias.name}" for alias in node.names]
        return names


def modules(packages: tuple[str, ...] = PRODUCT) -> list[Module]:
    """Parse all modules of the packages."""
    paths = sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))
    texts = {path: path.read_text() for path in paths}
    return [Module(path, ast.parse(text), text) for path, text in texts.items()]


def bindings_without_noun(tree: list[Module]) -> dict[str, list[str]]:
    """Bindings whose name is in `NOT_NOUNS`, by package: "path:line: name"."""
    bindings = defaultdict(list)
    for module in tree:
        path = module.path.relative_to(ROOT)
        for name, line in sorted(module.bindings, key=lambda binding: binding[1]):
            if name.strip("_") in NOT_NOUNS:
                bindings[module.package].append(f"{path}:{line}: {name}")
    return dict(sorted(bindings.items()))


def imports_past_seam(tree: list[Module]) -> list[str]:
    """Imports by app and workers of drivers outside of `SEAM`: "path: name"."""
    return [
        f"{module.path.relative_to(ROOT)}: {name}"
        for module in tree
        if module.path.relative_to(ROOT).parts[0] in ("app", "workers")
        for name in module.imports
        if name.startswith("drivers.") and not name.startswith(tuple(f"{top}." for top in SEAM))
    ]


def measures(tree: list[Module]) -> dict[str, str]:
    """Return the rows of the table: measure, value."""
    sizes = [module.lines for module in tree]
    functions = [function.lines for module in tree for function in module.functions]
    bindings = sum(len(module.bindings) for module in tree)
    without_noun = sum(map(len, bindings_without_noun(tree).values()))
    texts = [text for module in tree for text in module.texts]
    dialect = sum(bool(DIALECT.search(text)) for text in texts)
    any_annotations = sum(
        isinstance(node, ast.Name) and node.id == "Any"
        for module in tree
        for node in ast.walk(module.tree)
    )
    folders = Counter(module.path.parent.relative_to(ROOT) for module in tree)
    folder, files = folders.most_common(1)[0]
    loose = {package: folders[Path(package)] for package in PRODUCT}
    basenames = Counter(module.path.name for module in tree if module.path.name != "__init__.py")
    return {
        "files; lines": f"{len(tree)}; {sum(sizes):,}",
        "lines of a module: median; 90 %; most": _spread(sizes, 90),
        "modules of more than 400 lines": f"{sum(size > 400 for size in sizes)}",
        "lines of a function: median; 99 %; most": _spread(functions, 99),
        "functions of more than 50 lines": f"{sum(size > 50 for size in functions)}"
        f" of {len(functions):,}",
        "bindings without a noun": f"{without_noun:,} of {bindings:,}, {without_noun / bindings:.1%}",
        "docstrings and comments with a mark of dialect": f"{dialect:,} of {len(texts):,},"
        f" {dialect / len(texts):.1%}",
        "largest folder": f"{folder}, {files} files",
        "`Any` per 1,000 lines": f"{1000 * any_annotations / sum(sizes):.0f}",
        "imports of drivers past `drivers.core`, `builtin` and `net`": f"{len(imports_past_seam(tree))}",
        "modules directly in app; workers; drivers": "; ".join(map(str, loose.values())),
        "basenames of more than one module": f"{sum(count > 1 for count in basenames.values())}",
        "options": f"{sum(1 for _ in options(Settings))}",
    }


def _spread(sizes: list[int], percent: int) -> str:
    cut = statistics.quantiles(sizes, n=100)[percent - 1]
    return f"{statistics.median(sizes):.0f}; {cut:.0f}; {max(sizes)}"


def main(arguments: list[str]) -> None:
    if "--freeze" in arguments:
        bindings = bindings_without_noun(modules(NAMED))
        counts = {package: len(places) for package, places in bindings.items()}
        FROZEN.write_text(json.dumps(counts, indent=1) + "\n")
        return
    print("| measure | value |\n| --- | --- |")
    for name, value in measures(modules()).items():
        print(f"| {name} | {value} |")


if __name__ == "__main__":
    main(sys.argv[1:])
