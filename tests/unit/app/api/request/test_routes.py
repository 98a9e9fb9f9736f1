"""Queries: the check of an empty one is skipped only where it would change nothing."""

import importlib
import pkgutil

import pytest
from marshmallow import Schema

from app.api import schemas
from app.api.request.parsing import is_optional

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
def test_skipping_the_check_of_an_empty_query_changes_nothing(name):
    schema = SCHEMAS[name]()
    errors = schema.validate({})
    assert is_optional(schema) == (not errors and {} == schema.load({}))
