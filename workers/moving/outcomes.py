"""Outcomes of the rows that are moved from Ironic's database or to it."""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """Outcome of the move of one row."""

    WOULD_IMPORT = "would be imported"
    IMPORTED = "imported"
    WOULD_EXPORT = "would be exported"
    EXPORTED = "exported"
    WOULD_UPDATE = "would be updated"
    UPDATED = "updated"
    PRESENT = "there already"
    DIFFERS = "there, with other content"
    ONLY_IN_IRONIC = "only in Ironic"
    SKIPPED = "skipped"


#: Outcomes of rows whose content differs between the two databases.
LEFT = (Outcome.DIFFERS, Outcome.ONLY_IN_IRONIC, Outcome.SKIPPED)


@dataclass(frozen=True, slots=True)
class MovedRow:
    kind: str  # as "node", "deploy template"
    uuid: str
    name: str | None
    provision_state: str | None  # of a node
    outcome: Outcome
    detail: str  # reason, differing fields, or changes on the way; empty: none
