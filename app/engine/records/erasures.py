"""
Erasures: the disks that an operation has erased, by its steps and the reports of the agent.

Ended is not succeeded, and unreported is unknown. A machine counts as sanitized after a step that
erases all data, if the result of the step has a success for each disk in the agent's inventory of
the same boot.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from app.models import OperationStep, StepState

Disk = Mapping[str, Any]  # name, serial, wwn, vendor, model, size; each may be None


class Result(StrEnum):
    """Proof of an operation about the data of the previous user."""

    SANITIZED = "sanitized"
    NOT_SANITIZED = "not sanitized"
    UNKNOWN = "unknown"


class Erasure(StrEnum):
    """Proof about the data of a disk."""

    ERASED = "erased"
    METADATA = "metadata only"
    UNKNOWN = "unknown"
    MISSING = "missing"  # the last inspection has seen it, the agent has not
    FAILED = "failed"
    NOT_ERASED = "not erased"


#: Step of the agent -> what its success leaves of a disk.
ERASING: Mapping[str, Erasure] = {
    "deploy.erase_devices": Erasure.ERASED,
    "deploy.erase_devices_metadata": Erasure.METADATA,
    "deploy.erase_devices_express": Erasure.UNKNOWN,  # all data, or metadata where that takes long
}
#: Names of other steps that erase disks; the extent of their erasure is not known.
_ERASING_NAME = re.compile(r"erase(?!_pstore)|saniti[sz]e|wipe")
#: Precedence of the proofs of several steps about a disk: the last one of these counts.
_ORDER = (Erasure.METADATA, Erasure.UNKNOWN, Erasure.ERASED, Erasure.FAILED)
#: Words of an agent about one disk -> what they mean; others prove nothing.
_WORDS = {
    **dict.fromkeys(("success", "succeeded", "ok", "erased"), Erasure.ERASED),
    **dict.fromkeys(("failed", "failure", "error"), Erasure.FAILED),
    **dict.fromkeys(("skipped", "skip"), Erasure.NOT_ERASED),
}
_LONGEST = 255


@dataclass(frozen=True, slots=True)
class DiskErasure:
    """Proof about a disk, and the step that gives it."""

    disk: Disk
    status: Erasure
    step: int | None = None  # position; None: no step concerned it
    method: str | None = None  # as the agent tells it; None: it does not
    words: str | None = None  # of the agent about this disk


@dataclass(slots=True)
class Assessment:
    """The erasures of an operation."""

    result: Result
    disks: Sequence[DiskErasure]
    reasons: list[str] = field(default_factory=list)  # sentences; empty for a sanitized machine


def assess(
    steps: Iterable[OperationStep], inspected_disks: Sequence[Disk], *, succeeded: bool
) -> Assessment:
    """
    Return what the steps of an operation have erased.

    inspected_disks: of the last inspection. succeeded: whether the operation has.
    """
    erasing_steps = [step for step in steps if not step.child and _leaves(step) is not None]
    disks: dict[str, DiskErasure] = {}
    problems: list[str] = []
    for step in erasing_steps:
        for erasure in _of_step(step, inspected_disks, problems):
            key = _key(erasure.disk)
            if key not in disks or _rank(erasure.status) >= _rank(disks[key].status):
                disks[key] = erasure
    is_told = any(_listed(step) for step in erasing_steps)
    for disk in inspected_disks:
        status = Erasure.MISSING if is_told else Erasure.NOT_ERASED
        disks.setdefault(_key(disk), DiskErasure(disk, status))
    result = _result(disks.values(), erasing_steps, is_told=is_told, succeeded=succeeded)
    reasons = [*_reasons(disks.values(), erasing_steps, succeeded=succeeded), *problems]
    reasons = list(dict.fromkeys(reasons))
    if result is Result.UNKNOWN and not reasons:
        reasons.append("The agent has not listed the disks of the machine.")
    return Assessment(
        result, list(disks.values()), reasons if result is not Result.SANITIZED else []
    )


def _of_step(
    step: OperationStep, inspected_disks: Sequence[Disk], problems: list[str]
) -> Iterable[DiskErasure]:
    """Yield what a step proves about each disk; `problems` gets what the agent did not tell."""
    if step.state != StepState.DONE:
        if step.attempts:
            yield from (
                DiskErasure(disk, Erasure.FAILED, step.position) for disk in inspected_disks
            )
        return
    evidence, disks = _evidence(step), _listed(step)
    if not disks:
        problem = evidence.get("problem") or "the agent lists none"
        problems.append(f"The disks of {step.label} are unknown: {problem}.")
        yield from (DiskErasure(disk, Erasure.UNKNOWN, step.position) for disk in inspected_disks)
        return
    outcomes = (step.result or {}).get("result")
    by_name: Mapping[str, Any] = outcomes if isinstance(outcomes, Mapping) else {}
    doubt = _doubt(evidence.get("settings"))
    for disk in disks:
        yield _of_disk(step, disk, by_name, doubt)
    if doubt and _leaves(step) is Erasure.ERASED:
        problems.append(doubt)


def _of_disk(
    step: OperationStep, disk: Disk, by_name: Mapping[str, Any], doubt: str | None
) -> DiskErasure:
    status = _leaves(step) or Erasure.UNKNOWN
    if status is not Erasure.ERASED:
        return DiskErasure(disk, status, step.position)
    if disk["name"] not in by_name:
        return DiskErasure(disk, Erasure.UNKNOWN, step.position)
    answer = by_name[disk["name"]]
    if answer is None or answer is True:  # the agent's own way to tell a success, or a skipped disk
        return DiskErasure(disk, Erasure.UNKNOWN if doubt else status, step.position)
    details: Mapping[str, Any] = answer if isinstance(answer, Mapping) else {"result": answer}
    word = details.get("result")
    return DiskErasure(
        disk,
        Erasure.FAILED if word is False else _WORDS.get(str(word).strip().lower(), Erasure.UNKNOWN),
        step.position,
        _printable(details.get("method")),
        _printable(word),
    )


def _doubt(settings: object) -> str | None:
    """Return why a success without words proves nothing under these settings, if it does not."""
    values = settings if isinstance(settings, Mapping) else {}
    if values.get("erase_skip_read_only") is not False:
        return "The agent may have skipped read-only disks ([deploy]erase_skip_read_only)."
    zeros = values.get("shred_final_overwrite_with_zeros")
    if values.get("shred_random_overwrite_iterations") == 0 and zeros is not True:
        return "The agent had orders to overwrite disks not even once ([deploy]shred_*)."
    return None


def _result(
    disks: Iterable[DiskErasure],
    erasing_steps: Sequence[OperationStep],
    *,
    is_told: bool,
    succeeded: bool,
) -> Result:
    statuses = {erasure.status for erasure in disks}
    if not succeeded or not any(step.state == StepState.DONE for step in erasing_steps):
        return Result.NOT_SANITIZED
    if statuses & {Erasure.FAILED, Erasure.NOT_ERASED, Erasure.METADATA}:
        return Result.NOT_SANITIZED
    if all(_leaves(step) is Erasure.METADATA for step in erasing_steps):
        return Result.NOT_SANITIZED
    return Result.SANITIZED if is_told and statuses == {Erasure.ERASED} else Result.UNKNOWN


def _reasons(
    disks: Iterable[DiskErasure], erasing_steps: Sequence[OperationStep], *, succeeded: bool
) -> Iterable[str]:
    if not succeeded:
        yield "The operation has not succeeded."
    if not erasing_steps:
        yield "No step of the operation erases disks."
    elif all(_leaves(step) is Erasure.METADATA for step in erasing_steps):
        yield "Only partition tables and file system signatures were to be erased."
    for erasure in disks:
        if erasure.status is not Erasure.ERASED:
            name = erasure.disk.get("serial") or erasure.disk.get("name") or "without a name"
            yield f"Disk {name}: {erasure.status}."


def _leaves(step: OperationStep) -> Erasure | None:
    """Return what the success of a step leaves of a disk; None for a step that erases none."""
    is_named_so = _ERASING_NAME.search(step.name) is not None
    return ERASING.get(step.label) or (Erasure.UNKNOWN if is_named_so else None)


def _evidence(step: OperationStep) -> Mapping[str, Any]:
    """Return the agent's report after a step, see `drivers.agent.erasure`."""
    evidence = (step.result or {}).get("erasure")
    return evidence if isinstance(evidence, Mapping) else {}


def _listed(step: OperationStep) -> Sequence[Disk]:
    return _evidence(step).get("disks") or ()


def _key(disk: Disk) -> str:
    """Identify a disk across boots: names may change."""
    return str(disk.get("serial") or disk.get("wwn") or disk.get("name"))


def _rank(status: Erasure) -> int:
    return _ORDER.index(status) if status in _ORDER else len(_ORDER)


def _printable(value: object) -> str | None:
    if value is None:
        return None
    return "".join(filter(str.isprintable, str(value)[:_LONGEST]))
