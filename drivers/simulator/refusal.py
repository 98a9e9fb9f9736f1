"""Errors of a simulated BMC."""

from typing import Any

from drivers.simulator.server import Response, json


class Refusal(Exception):
    """The BMC refuses a request: HTTP status, Redfish message id and text."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message

    def response(self, headers: dict[str, str] | None = None) -> Response:
        code = f"Base.1.12.{self.code}"
        info = {"MessageId": code, "Message": self.message, "Severity": "Critical"}
        error = {"code": code, "message": self.message, "@Message.ExtendedInfo": [info]}
        return json({"error": error}, self.status, headers)


def only(body: dict[str, object], known_names: set[str]) -> None:
    """Refuse properties other than the known ones."""
    unknown_names = sorted(set(body) - known_names)
    if unknown_names:
        raise Refusal(400, "PropertyUnknown", f"The property {unknown_names[0]} cannot be changed.")


def choice(body: dict[str, Any], name: str, choices: list[str], default: str = "") -> str:
    """Return the value of a property, which must be one of the choices. Raises Refusal."""
    value = body.get(name, default or None)
    if value is None:
        raise Refusal(400, "ActionParameterMissing", f"{name} is missing.")
    if value not in choices:
        raise Refusal(400, "PropertyValueNotInList", f"{name} cannot be {value!r}.")
    return str(value)
