"""Queries: the check of an empty one is skipped only where it would change nothing."""

import importlib
import pkgutil

import pytest
from marshmallow import Schema

from app.api import schemas
from app.api.request.parsing import is_optional

MODULES = [
    importlib.import_module(f"{schemas.__name__}.{module_info.name}")
    for module_info in pkgutil.iter_modules(schemas.__path__)
]
SCHEMAS = {
    name: member
    for module in MODULES
    for name, member in vars(module).items()
    if isinstance(member, type) and issubclass(member, Schema)
}


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_skipping_the_check_of_an_empty_query_changes_nothing(name):
    schema = SCHEMAS[name]()
    errors = schema.validate({})
    assert is_optional(schema) == (not errors and {} == schema.load({}))
