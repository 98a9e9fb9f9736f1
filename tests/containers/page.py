"""The commands of docs/containers.md, which the run takes from the page itself."""

import re

from tests.support.fleet import ROOT

PAGE = ROOT / "docs" / "containers.md"
_SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def sections():
    """Heading -> the lines of the code blocks below it; only headings with commands."""
    blocks = {
        name: "".join(_BLOCK.findall(text)) for name, text in _SECTION.findall(PAGE.read_text())
    }
    return {name: text.splitlines() for name, text in blocks.items() if text}
