"""Routes: what is not looked at must not matter."""

import importlib
import pkgutil

import pytest
from marshmallow import Schema

from app.api import schemas
from app.api.parsing import is_optional

MODULES = [
    importlib.import_module(f"{schemas.__name__}.{each.name}")
    for each in pkgutil.iter_modules(schemas.__path__)
]
SCHEMAS = {
    name: found
    for module in MODULES
    for name, found in vars(module).items()
    if isinstance(found, type) and issubclass(found, Schema)
}


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_a_query_that_is_not_checked_as_it_is_empty_would_have_told_nothing(name):
    schema = SCHEMAS[name]()
    errors = schema.validate({})
    assert is_optional(schema) == (not errors and {} == schema.load({}))
