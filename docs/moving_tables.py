"""The tables of moving-from-ironic.md, generated from `workers.moving.driver_mapping`."""

from docs.markdown import Lines, code, table
from workers.moving.driver_mapping import HARDWARE_TYPES, INTERFACES, RENAMED, WAY_BACK


def moving_tables() -> Lines:
    yield from table(
        ("hardware type of Ironic", "here", "options of `driver_info`, as the address"),
        (
            (
                code(name),
                code(successor.name),
                " become ".join(code(prefix + RENAMED[0]) for prefix in successor.renamed),
            )
            for name, successor in HARDWARE_TYPES.items()
        ),
    )
    yield from table(
        ("kind", "interface of Ironic", "here", "without"),
        (
            (kind, code(name), code(*successors), lost)
            for (kind, name), (successors, lost) in INTERFACES.items()
        ),
    )
    yield from table(
        ("kind", "interface here", "in Ironic, on the way back", "without"),
        (
            (kind, code(name), code(*successors), lost)
            for (kind, name), (successors, lost) in WAY_BACK.items()
        ),
    )
