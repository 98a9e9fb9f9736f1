"""Fixtures of the driver tests and of the contract tests, for attacks on the same parts."""

from tests.contract import conftest as contract
from tests.contract.policy import conftest as policy
from tests.unit.drivers import conftest as drivers

agent, images = drivers.agent, drivers.images
applications, api, kind = contract.applications, contract.api, contract.kind
guarded, configured_apps, strategy = policy.guarded, policy.configured_apps, policy.strategy
tokens_of_people = policy.tokens_of_people
