"""
The table of hardware-vendors.md: features of vendors that tests show, with the marks of the tests.

A test of a BMC that behaves as a vendor's does is marked `@pytest.mark.vendor(VENDOR, FEATURE)`,
once for each pair. The files are parsed, not imported.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from docs.markdown import Lines, code, table

FOLDER = Path(__file__).parent.parent / "tests" / "unit" / "drivers" / "redfish"
VENDORS = (
    "AMI", "ASRock Rack", "Cisco", "Dell", "HPE", "Lenovo", "OpenBMC", "Supermicro",
)  # fmt: skip
FEATURES = (
    "power", "boot device", "virtual media", "BIOS and RAID", "firmware", "inspection",
    "management",
)  # fmt: skip


class Proof(NamedTuple):
    """A test that shows a feature of a vendor."""

    vendor: str
    feature: str
    test: str  # name of the function
    file: str


class UnknownMark(ValueError):
    """A mark names a vendor or a feature that the table does not have."""


def proofs(folder: Path = FOLDER) -> list[Proof]:
    """Return all marked tests. Raises UnknownMark: names the test."""
    tests = [
        Proof(*pair, function.name, path.name)
        for path in sorted(folder.rglob("test_*.py"))
        for function in ast.parse(path.read_text()).body
        if isinstance(function, ast.FunctionDef)
        for pair in _marks(function, path.name)
    ]
    return sorted(tests)


def _marks(function: ast.FunctionDef, file: str) -> Iterator[tuple[str, str]]:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.vendor":
            vendor, feature = (ast.literal_eval(argument) for argument in decorator.args)
            if vendor not in VENDORS or feature not in FEATURES:
                raise UnknownMark(f"{file}: {function.name} is marked {vendor!r}, {feature!r}")
            yield vendor, feature


def features() -> Lines:
    """Return the table of vendors and features, and the list of tests behind it."""
    marked = proofs()
    yield from (
        "## Features",
        "",
        "`yes`: a test runs against a BMC that behaves as the vendor's does; the list names it.",
        "",
    )
    pairs = {(proof.vendor, proof.feature) for proof in marked}
    yield from table(
        ("vendor", *FEATURES),
        (
            (vendor, *("yes" if (vendor, feature) in pairs else "-" for feature in FEATURES))
            for vendor in VENDORS
        ),
    )
    yield from table(
        ("vendor", "feature", "test"),
        (
            (proof.vendor, proof.feature, f"{_words(proof.test)} ({code(proof.file)})")
            for proof in marked
        ),
    )


def _words(name: str) -> str:
    return name.removeprefix("test_").replace("_", " ")
