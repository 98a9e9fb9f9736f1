"""A copy of the tree, with the additions of docs/contributing.md, and the service in it."""

import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests

from tests.support.fleet import PATIENCE
from tests.support.syntax_diffs import change

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/contributing.md"
#: Newest microversion, which the additions introduce, and the one before it.
SINCE, BEFORE = "1.115", "1.114"
_NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv", ".*_cache", ".hypothesis", ".ingot", ".compare", "__pycache__", "*.egg-info",
    "build", "dist",
)  # fmt: skip
_SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"^```diff\n\+\+\+ (\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def copy_tree(folder):
    """Copy the tree, without installed, cached and built files."""

    def ignored(directory, names):
        mutated = {"mutants"} if Path(directory) == ROOT else set()  # of `make mutation`
        return _NOT_COPIED(directory, names) | mutated

    shutil.copytree(ROOT, folder, ignore=ignored, dirs_exist_ok=True)


def additions(page=PAGE):
    """Return title of a section of the page -> its diffs: (path of the file, hunks)."""
    return {title: _BLOCK.findall(text) for title, text in _SECTION.findall(page.read_text())}


@dataclass
class Copy:
    """A copy of the tree, and the API that runs in it."""

    folder: Path
    environ: dict[str, str]
    url: str = ""

    @classmethod
    def extended(cls, folder):
        """Copy the tree, and apply all additions of the page."""
        copy_tree(folder)
        newest = max(path.stem[:4] for path in (folder / "migrations/versions").glob("[0-9]*.py"))
        for diffs in additions().values():
            for name, diff in diffs:
                path = folder / name
                text = path.read_text() if path.exists() else ""
                path.write_text(change(text, diff).replace("NEWEST_REVISION", newest))
        return cls(folder, {**os.environ, "PYTHONPATH": str(folder)})

    def ask(self, method, path, body=None, version=SINCE):
        headers = {"X-OpenStack-Ironic-API-Version": version}
        return requests.request(method, self.url + path, json=body, headers=headers, timeout=30)

    def run(self, *words, **environ):
        """Run Python in the copy, with these variables in its environment."""
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.folder, env={**self.environ, **environ}, capture_output=True, text=True,
            check=False, timeout=PATIENCE,
        )  # fmt: skip

    def cli(self, *words):
        process = self.run("-m", "workers.ingot", *words)
        assert 0 == process.returncode, process.stderr
        return process.stdout

    @contextmanager
    def serving(self):
        """Run `make docs` and the service in the copy."""
        command = [
            sys.executable, "-m", "tests.support.serve_copy", str(self.folder / "ingot.db"),
        ]  # fmt: skip
        with subprocess.Popen(
            command, cwd=self.folder, env=self.environ, stdout=subprocess.PIPE
        ) as service:
            try:
                generated = self.run("-m", "docs.generate")
                assert 0 == generated.returncode, generated.stderr
                self.url = f"http://127.0.0.1:{int(service.stdout.readline())}"
                self.environ["INGOT_URL"] = self.url
                yield self
            finally:
                service.kill()
