"""Who asks."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """
    The one on whose behalf a request is served; without authentication, all but the request id
    are None or empty.
    """

    user_id: str | None = None
    project_id: str | None = None
    roles: tuple[str, ...] = ()
    request_id: str | None = None
