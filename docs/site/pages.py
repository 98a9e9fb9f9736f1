"""Hooks of the documentation site: pages outside of docs/, decisions, links into the code."""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
#: Page at the top of the tree -> its page of the site. Names differ in more than their capitals.
TOP = {"CHANGELOG.md": "changes.md", "CONTRIBUTING.md": "development.md"}
DECISIONS = "decisions/index.md"
LINK = re.compile(r"(?<!!)\[([^]]+)\]\(([^)\s]+)\)")
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    """Replace `decisions/` of the navigation by the records."""
    records = [f"decisions/{path.name}" for path in _records()]
    for entry in config.nav:
        if entry.get("Decisions") == "decisions/":
            entry["Decisions"] = [DECISIONS, *records]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not in docs/."""
    pages = {page: (ROOT / name).read_text() for name, page in TOP.items()}
    titles = {path.name: path.read_text().partition("\n")[0].lstrip("# ") for path in _records()}
    pages[DECISIONS] = "# Decisions\n\n" + "".join(
        f"- [{title}]({name})\n" for name, title in titles.items()
    )
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links that lead out of the site into text with the path in the tree."""
    source = page.file.src_uri
    folder = "" if source in TOP.values() else posixpath.dirname(f"docs/{source}")

    def rewritten(link: re.Match[str]) -> str:
        text, target = link.groups()
        path, separator, anchor = target.partition("#")
        if "://" in target or not path:
            return link[0]
        full = posixpath.normpath(posixpath.join(folder, path))
        if not (ROOT / full).exists() and full != f"docs/{DECISIONS}":
            return link[0]  # the strict build reports it
        if full == "docs/decisions":
            full = f"docs/{DECISIONS}"
        if full in TOP or full.startswith("docs/"):
            here = posixpath.dirname(source) or "."
            relative = posixpath.relpath(TOP.get(full) or full.removeprefix("docs/"), here)
            return f"[{text}]({relative}{separator}{anchor})"
        return text if path.rpartition("/")[2] in text else f"{text} (`{full}`)"

    parts = FENCE.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(rewritten, part) for part in parts)


def _records() -> list[Path]:
    return sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
