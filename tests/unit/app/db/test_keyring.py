"""The keys of a process, which are read at their first use if the database was away at its start."""

from concurrent.futures import ThreadPoolExecutor, wait

import pytest
from sqlalchemy.exc import OperationalError

from app.db import sealing
from app.db.master_keys import Master
from app.db.sealing import MARK, Keyring, has_sealed

MASTER = Master(bytes(32))
ROW = MASTER.new_data_key()
PLACE = "nodes.driver_info:1"
INFO = {"redfish_password": "calvin"}


def ring_of(rows):
    return Keyring([MASTER], rows)


SEALED = ring_of(lambda: [ROW]).dumps(INFO, PLACE)
DIGEST = ring_of(lambda: [ROW]).digest("token")
#: Uses of the keys by a process -> whether it succeeded.
USES = {
    "opens": lambda ring: ring.loads(SEALED, PLACE) == INFO,
    "seals": lambda ring: has_sealed(ring.dumps(INFO, PLACE)),
    "compares": lambda ring: ring.digest("token") == DIGEST,
    "proves": lambda ring: ring.proof(b"record") is not None,
    "signs": lambda ring: ring.signature(b"record") is not None,
    "seals-calls": lambda ring: ring.seals and ring.seal(b"call", "queue").startswith(MARK),
}


@pytest.fixture
def threads():
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_thread_waits_for_the_keys_that_another_one_reads(threads, use):
    uses = []

    def rows():
        if not uses:  # the other thread needs the keys now, and waits until they are here
            uses.append(threads.submit(use, ring))
            wait(uses, 0.1)
        return [ROW]

    ring = ring_of(rows)
    assert use(ring)
    assert uses[0].result(60)


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_keys_that_could_not_be_read_are_read_at_the_next_use(use):
    errors = [OperationalError("SELECT", {}, Exception("away"))]

    def rows():
        if errors:
            raise errors.pop()
        return [ROW]

    ring = ring_of(rows)
    with pytest.raises(OperationalError):
        use(ring)
    assert use(ring)


def test_known_keys_serve_while_they_are_read_again_and_after_a_failure(threads, monkeypatch):
    uses = []

    def rows():
        if len(uses) == 1:
            uses.append(threads.submit(USES["seals"], ring))
            assert uses[-1].result(60)
            raise OperationalError("SELECT", {}, Exception("away"))
        return [ROW]

    ring = ring_of(rows)
    ring.refresh()
    monkeypatch.setattr(sealing, "REFRESH", -1.0)
    uses.append(None)
    assert USES["seals"](ring)
    assert len(uses) == 2
