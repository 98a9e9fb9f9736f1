"""
The modules of a page as one script: one request instead of one per module, and no build step.

Each module becomes a function that returns its exports, in the order in which they import each
other. So the names of a module stay its own, and the browser runs the same code as from the files.
"""

import re
from collections.abc import Mapping
from graphlib import TopologicalSorter

#: A static import of named exports of a module of the same folder.
IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w.]+)";$', re.MULTILINE)
#: A declaration that is exported.
EXPORT = re.compile(
    r"^export (?=(?:const|let|class|function|async function)\*? (\w+))", re.MULTILINE
)
#: Other forms, which this module does not translate.
UNKNOWN = re.compile(r"^(?:import\b(?!\()|export\b).*$", re.MULTILINE)


def joined(modules: Mapping[str, str], entry: str) -> str:
    """
    Return the script of a page.

    modules: file name -> text. entry: name of the module that starts the page. Modules that it does
    not import, directly or through others, are left out.

    Raises ValueError: a form of import or export that is not known here, or a circular import.
    """
    return "".join(_function(name, modules[name]) for name in names(modules, entry))


def names(modules: Mapping[str, str], entry: str) -> list[str]:
    """
    Return the names of a page's modules, each after those that it imports.

    Raises ValueError: a circular import.
    """
    imports: dict[str, set[str]] = {}
    pending = [entry]
    while pending:
        name = pending.pop()
        if name not in imports:
            imports[name] = {match[2] for match in IMPORT.finditer(modules[name])}
            pending += sorted(imports[name])
    return list(TopologicalSorter(imports).static_order())  # its CycleError is a ValueError


def _function(name: str, text: str) -> str:
    """Return a module as a function of its own, whose value has the exports."""
    exports = EXPORT.findall(text)
    body = EXPORT.sub("", IMPORT.sub(_constants, text))
    if unknown := UNKNOWN.search(body):
        raise ValueError(f"{name}: this form is not translated: {unknown[0]}")
    return (
        f"const {_variable(name)} = (() => {{\n{body}\nreturn {{ {', '.join(exports)} }};\n}})();\n"
    )


def _constants(match: re.Match[str]) -> str:
    names = re.sub(r"(\w+) as (\w+)", r"\1: \2", match[1])
    return f"const {{{names}}} = {_variable(match[2])};"


def _variable(name: str) -> str:
    return f"module_{re.sub(r'[^a-z0-9]', '_', name)}"
