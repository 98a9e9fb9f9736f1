"""Facts about a request for its audit record, beyond its method, path and response."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class AuditTrail:
    """Facts that the authentication, the handler and the audit itself note about a request."""

    request_id: str
    target: str | None = None
    target_name: str | None = None
    reason: str | None = None  # cause of the refusal of an agent's request
    detail: str = ""  # end of the action's name
    secrets: set[str] = field(default_factory=set)  # names of shown fields with secrets
    document: Any = None  # the decoded body
    claimed_user: str | None = None  # user of a login that is refused
    logged_in: bool = False  # by a password that was checked for this request
    pending: int | None = None  # id of the announced record
    recorded: bool = False

    def concern(self, target: str, name: str | None = None) -> None:
        """Note UUID and name of the request's target, which its path may identify otherwise."""
        self.target, self.target_name = target, name

    def explain(self, reason: str, target: str | None) -> None:
        """Note the reason why a request of an agent is refused, and the node, if it is known."""
        self.reason, self.target = reason, target

    def specify(self, detail: str) -> None:
        """Note which of the route's actions is requested; `detail` is from a fixed list."""
        self.detail = f"/{detail.replace(' ', '_')}"

    def show_secret(self, name: str) -> None:
        """Note that the answer has secrets. name: of the field that has them."""
        self.secrets.add(name)

    def name_user(self, name: str) -> None:
        """Note the user of a login: the route records it, whether it succeeds or not."""
        self.claimed_user, self.logged_in = name, False

    def skip(self) -> None:
        """Note that the request repeats one that is recorded."""
        self.recorded = True
