"""The keys of `driver_info` that drivers read, and the nearest one to a wrong key."""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from app.cli.rest import Api
from app.cli.terminal.errors import Failure

#: Similarity from which on an unknown key is taken for a wrong one: drivers ignore further keys.
SIMILAR = 0.85


class DriverKeys:
    """The keys of drivers; the service is asked for those of each driver once."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._keys: dict[str, list[str]] = {}

    def problems(self, driver: str, keys: Iterable[str]) -> Iterator[str]:
        """Yield a sentence for each key that the driver does not read, and that resembles one."""
        for key in keys:
            if nearest := self._nearest(driver, key):
                yield (
                    f"driver_info.{key}: driver {driver} has no such key; the nearest is {nearest}"
                )

    def _nearest(self, driver: str, key: str) -> str | None:
        if driver not in self._keys:
            try:
                self._keys[driver] = list(self._api.get("drivers", driver, "properties"))
            except Failure:  # the service refuses an unknown driver with the reason
                self._keys[driver] = []
        keys = self._keys[driver]
        matches = [] if key in keys else get_close_matches(key, keys, 1, SIMILAR)
        return matches[0] if matches else None
