"""Refused lookups in Redis: which are kept, if there are too many."""

from collections import Counter
from datetime import datetime, timedelta

import pytest

from app.broker import redis_broker, refused_lookups
from app.broker.refused_lookups import Refusals
from tests.support.redis import breakers


@pytest.fixture
def noted(redis_url, monkeypatch):
    """Return a function: note lookups of addresses, a second apart; return those that are kept."""
    monkeypatch.setattr(refused_lookups, "MOST", 10)
    begin = datetime(2026, 1, 1)

    def note(*addresses):
        with redis_broker.client(redis_url, 2) as client:
            refusals = Refusals(client, "test", breakers(redis_url).of_writes())
            for number, address in enumerate(addresses):
                time = begin + timedelta(seconds=number)
                refusals.note([f"52:54:00:aa:00:{number:02x}"], address, "x", None, time)
            return refusals.since(begin)

    return note


def test_a_flood_of_refused_lookups_does_not_displace_those_of_other_addresses(noted):
    refusals = noted("192.0.2.1", "192.0.2.2", *["198.51.100.7"] * 30)
    assert {"192.0.2.1": 1, "192.0.2.2": 1, "198.51.100.7": 8} == Counter(
        refusal.address for refusal in refusals
    )
    assert ("52:54:00:aa:00:1f",) == refusals[0].macs  # the newest ones are kept


def test_of_addresses_with_one_refused_lookup_the_newest_are_kept(noted):
    refusals = noted(*(f"198.51.100.{number}" for number in range(15)))
    assert [f"198.51.100.{number}" for number in reversed(range(5, 15))] == [
        refusal.address for refusal in refusals
    ]
