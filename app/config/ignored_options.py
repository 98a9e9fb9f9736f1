"""Options that a file or the environment may have although they are none here, and why."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from app.config.options import variable


@dataclass(frozen=True, slots=True)
class IgnoredOptions:
    """
    Options that cause a warning instead of an error.

    ironic: group -> names that only Ironic has; ("*",): all names of the group.
    removed: "group.name" of an option of an earlier release -> what holds instead.
    """

    ironic: Mapping[str, Iterable[str]] = field(default_factory=dict)
    removed: Mapping[str, str] = field(default_factory=dict)

    def reason(self, place: str) -> str | None:
        """Return why an option, "group.name", is ignored; None if it is not one of these."""
        group_name, _, name = place.partition(".")
        if place in self.removed:
            return f"this is no longer an option, it is ignored: {self.removed[place]}"
        names = self.ironic.get(group_name, ())
        if "*" in names:
            return (
                f"[{group_name}] is a group of Ironic's options that Ingot does not use; it is"
                " ignored"
            )
        if name in names:
            return "Ingot does not use this option of Ironic; it is ignored"
        return None

    def reason_of_variable(self, name: str) -> str | None:
        """Return why the option that a variable of the environment names is ignored."""
        place = next((place for place in self.removed if name == _variable(place)), None)
        return self.reason(place or self._place(name) or "")

    def _place(self, name: str) -> str | None:
        """Return the option of Ironic, as "group.name", that a variable names."""
        for group_name, names in self.ironic.items():
            prefix = variable(group_name, "")
            if "*" in names and group_name != "DEFAULT" and name.startswith(prefix):
                return f"{group_name}.{name.removeprefix(prefix).lower()}"
            for option_name in names:
                if name == variable(group_name, option_name):
                    return f"{group_name}.{option_name}"
        return None


def _variable(place: str) -> str:
    group_name, _, name = place.partition(".")
    return variable(group_name, name)
