"""Memory of fake hardware, in the node: `driver_internal_info.fake`."""

from typing import Any

from drivers.core.target import Target

KEY = "fake"


def recall(target: Target, name: str, default: object) -> Any:
    """Return the value last remembered under a name, in this call or before."""
    return _memory(target).get(name, default)


def remember(target: Target, **facts: object) -> None:
    target.report(driver_internal_info={KEY: {**_memory(target), **facts}})


def _memory(target: Target) -> dict[str, object]:
    return dict(target.internal_fact(KEY) or {})
