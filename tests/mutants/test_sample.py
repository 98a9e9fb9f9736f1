"""The day's sample of mutants."""

import pytest

from tests.mutants import runner, table


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_tests_notice_the_mutants_of_the_day():
    verdicts = list(runner.run(table.sample(table.load(), 20)))
    assert verdicts
    assert [] == [verdict for verdict in verdicts if not verdict.acceptable]
