"""What an operator sees who starts the service for the first time."""

import json

from tests.support.fleet import Fleet, until


def test_the_first_start_has_nothing_to_warn_of(tmp_path):
    with Fleet(tmp_path, conductors=1) as fleet:
        with fleet.redis() as client:
            until(lambda: client.exists("ingot:epoch"), "the first look for what got lost")
        (node,) = fleet.create_nodes(1)
        fleet.provision([node], "manage")
        fleet.await_state([node], "manageable")
        text = fleet.text()
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert "up.ready" in {line["event"] for line in lines}
    assert [] == [line for line in lines if line["level"] not in ("debug", "info")]
    assert "SecurityWarning" not in text
