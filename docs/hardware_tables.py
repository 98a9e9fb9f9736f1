"""Tables of docs/boot.md, hardware-orders.md and hardware-vendors.md."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from docs import vendor_features
from docs.markdown import Lines, code, table
from drivers.builtin import HARDWARE_TYPES
from drivers.redfish.booting import quirks
from drivers.redfish.changes import tasks


def task_ends() -> Lines:
    yield "Meanings of an answer of a task or a monitor; the first row that matches applies.\n"
    yield from table(
        ("HTTP", "content", "read before", "the task is", "reason"),
        (
            (
                _statuses(row.statuses),
                ", ".join(row.contents or ("any",)),
                ", ".join(str(observation) or "nothing" for observation in row.seen or ("any",)),
                row.end or "as the document says",
                row.reason,
            )
            for row in tasks.ANSWERS
        ),
    )
    for name, ends in (("Task", tasks.TASKS), ("Job", tasks.JOBS)):
        yield f"Meanings of the document of a {name.lower()}, by its {name}Status:\n"
        yield from table(
            (f"{name}State", *(status or "missing or other" for status in tasks.STATUSES)),
            (
                (state if state.startswith("(") else code(state), *row)
                for state, row in ends.items()
            ),
        )


def _statuses(statuses: Sequence[int]) -> str:
    if isinstance(statuses, range):
        return f"{statuses[0]} to {statuses[-1]}"
    return ", ".join(str(status) for status in statuses)


def vendors() -> Lines:
    yield from table(
        ("row", "vendor", "BMC", "difference, and what Ingot does", "source"),
        (
            (
                row.name,
                code(row.vendor),
                _models(row),
                row.difference,
                f"[{urlsplit(row.source).hostname}]({row.source})",
            )
            for row in quirks.QUIRKS
        ),
    )
    yield from vendor_features.features()


#: Value of `Boot.options` -> the instance.
_INSTANCES = {
    "boot_iso": "`boot_iso`",
    "ramdisk": "`kernel` and `ramdisk`",
    "kickstart": "an installer",
    "iscsi_volume": "a volume over iSCSI",
}


def boot_combinations() -> Lines:
    yield from table(
        ("boot interface", "boot modes", "instances beside those on a disk"),
        (
            (
                code(boot.name),
                ", ".join(map(code, boot.modes)),
                ", ".join(text for name, text in _INSTANCES.items() if name in boot.options),
            )
            for boot in {
                boot.name: boot
                for hardware in HARDWARE_TYPES
                for boot in hardware.interfaces["boot"]
                if boot.name != "fake"
            }.values()
        ),
    )


def _models(row: quirks.Quirk) -> str:
    """Return the models and firmware versions of the BMCs that a row is about."""
    bounds = (("from", row.since), ("before", row.before))
    versions = [f"{word} {'.'.join(map(str, version))}" for word, version in bounds if version]
    return ", ".join([*([code(row.model)] if row.model else []), *versions]) or "all"
