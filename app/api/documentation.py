"""The API's own documentation: how its fields read in OpenAPI, and a page that shows it."""

from pathlib import Path
from typing import Any

from apispec.ext.marshmallow import MarshmallowPlugin
from flask import Response

from app.api.schemas.common import Flag, Mac, Uuid, Words

PAGE = Path(__file__).with_name("documentation.html")


class Marshmallow(MarshmallowPlugin):
    """Knows the types that our fields stand for."""

    def init_spec(self, spec: Any) -> None:
        super().init_spec(spec)
        self.converter.add_attribute_function(_own_type)


def _own_type(_converter: Any, field: Any, **_kwargs: Any) -> dict[str, Any]:
    match field:
        case Flag():
            return {"type": "boolean"}
        case Uuid():
            return {"type": "string", "format": "uuid"}
        case Mac():
            return {"type": "string", "format": "mac"}
        case Words():
            return {"type": "string"}
    return {}


def page() -> Response:
    """A page that renders /openapi.json, from this service alone."""
    return Response(PAGE.read_bytes(), content_type="text/html; charset=utf-8")
