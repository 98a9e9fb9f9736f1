"""The headers of deliveries that Standard Webhooks specifies (https://www.standardwebhooks.com)."""

from base64 import b64encode

import pytest

from drivers.net.signed import standard_headers
from tests.support.receiver import SECRET, standard_verified

from .conftest import changed, create, drain, due

WHSEC = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#: Secret of an earlier release, which the present one would refuse: its bytes are the key.
MALFORMED = "whsec_no base64 at all"


def test_the_standard_signature_is_that_of_the_published_example():
    # of the specification's reference libraries: this secret, id, time and body
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    assert standard_verified(WHSEC, headers, b'{"test": 2432232314}')
    assert not standard_verified(SECRET, headers, b'{"test": 2432232314}')


@pytest.mark.parametrize("secret", [WHSEC, SECRET, MALFORMED])
def test_the_standard_signature_covers_id_time_and_body(secret):
    headers = standard_headers(["previous", secret], 17, b"body")
    encoded_key = b64encode(secret.encode()).decode()
    verifier = f"whsec_{encoded_key}" if secret == MALFORMED else secret
    assert standard_verified(verifier, headers, b"body")
    assert standard_verified("previous", headers, b"body")
    assert not standard_verified("another", headers, b"body")
    assert not standard_verified(verifier, headers, b"bodY")
    for name, value in (("webhook-id", "msg_1"), ("webhook-timestamp", "18")):
        assert not standard_verified(verifier, {**headers, name: value}, b"body")
    assert "." not in headers["webhook-id"]
    assert headers["webhook-id"] == standard_headers([secret], 18, b"body")["webhook-id"]
    assert headers["webhook-id"] != standard_headers([secret], 17, b"bodY")["webhook-id"]


def test_a_repeated_delivery_has_the_id_of_the_first(inside, deliverer, receiver):
    node = inside.node()
    hook = create(inside, receiver)
    changed(inside, node)
    receiver.status = 503
    drain(inside, deliverer, hook)
    receiver.status = 200
    due(inside, hook)
    drain(inside, deliverer, hook)
    changed(inside, node)
    drain(inside, deliverer, hook)
    first_ident, second_ident, third_ident = receiver.idents
    assert first_ident == second_ident != third_ident
