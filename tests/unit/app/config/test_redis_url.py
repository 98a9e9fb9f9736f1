"""URLs of Redis: both clients get the same server, database and login."""

import pytest
from kombu import Connection

from app.broker import queue
from app.broker.redis_broker import client
from app.config.redis_url import FORMS, parse
from app.config.settings import SettingsError, load

CASES = {
    "redis://h": ("h", 6379, 0, None, None),
    "redis://h:7000/3": ("h", 7000, 3, None, None),
    "redis://h?db=4": ("h", 6379, 4, None, None),
    "redis://h?virtual_host=4": ("h", 6379, 4, None, None),
    "redis://h/2?db=4": ("h", 6379, 2, None, None),
    "redis://:p%40%2F%23@[::1]:7000/1": ("::1", 7000, 1, None, "p@/#"),
    "rediss://u:p@h/1?ssl_cert_reqs=none": ("h", 6379, 1, "u", "p"),
    "redis+socket:///run/r.sock": ("/run/r.sock", None, 0, None, None),
    "redis+socket:///run/r.sock?db=3": ("/run/r.sock", None, 3, None, None),
    "redis+socket:///run/r.sock?virtual_host=3": ("/run/r.sock", None, 3, None, None),
    "redis+socket:///run/r.sock?db=3&password=x": ("/run/r.sock", None, 3, None, "x"),
    "redis+socket://u:p%3F@/run/r.sock": ("/run/r.sock", None, 0, "u", "p?"),
    "unix:///run/r.sock?db=3": ("/run/r.sock", None, 3, None, None),
}


def place(arguments):
    return (
        arguments.get("path") or arguments.get("host"),
        arguments.get("port"),
        arguments.get("db"),
        arguments.get("username"),
        arguments.get("password"),
    )


def of_kombu(url):
    """The arguments of connections of the application's transport."""
    application = queue.celery(load({"INGOT_BROKER_URL": url}))
    connection = application.connection_for_write()
    try:
        transport = connection.transport
        channel = transport.Channel.__new__(transport.Channel)
        channel.connection = transport
        channel.max_connections = 10
        for name, value in connection.transport_options.items():
            setattr(channel, name, value)
        return channel._connparams()
    finally:
        application.close()


@pytest.mark.parametrize("url", CASES)
def test_both_clients_use_the_same_server_and_database(url):
    ours = client(url, 1.0).connection_pool.connection_kwargs
    assert CASES[url] == place(ours)
    theirs = of_kombu(url)
    assert CASES[url] == place({"host": theirs.get("host"), **theirs})
    assert ("ssl_cert_reqs" in ours) == url.startswith("rediss")


def test_the_certificate_of_the_server_is_verified_by_both_clients():
    assert "required" == client("rediss://h", 1).connection_pool.connection_kwargs["ssl_cert_reqs"]
    assert "CERT_REQUIRED" in str(Connection(parse("rediss://h").for_kombu).ssl)


def test_the_sentinels_of_a_url():
    address = parse("sentinel://u:p@a,b:7000,[::1]/main/2?sentinel_password=s")
    assert (("a", 26379), ("b", 7000), ("::1", 26379)) == address.hosts
    assert ("main", 2, "u", "p") == (address.master, address.db, address.username, address.password)
    options = address.sentinel_options(3)
    timeouts = {"socket_connect_timeout": 1, "socket_timeout": 1, "retry": None}
    assert timeouts | {"password": "s"} == options, "they share the seconds"
    assert address == parse("redis+sentinel://u:p@a,b:7000,[::1]/main/2?sentinel_password=s")


@pytest.mark.parametrize(
    "url",
    [
        "h:6379", "http://h", "redis:///0", "redis://h/abc", "redis://h:abc", "redis://h:99999", "redis://h/0/1",
        "redis://a:6379,b:6379/0", "redis://u:se#cret@h", "redis://u:se@cret@h", "redis://h?timeout=3", "redis://h?db",
        "redis+socket://run/r.sock", "redis+socket://", "redis+socket:///r.sock?socket_timeout=1",
        "sentinel://a,b", "sentinel://a;sentinel://b/main", "sentinel://a/main/x", "rediss://h?ssl_cert_reqs=perhaps",
        "redis://[::1/0", "redis://u:secret@[h]/0",
    ],
)  # fmt: skip
def test_a_malformed_url_is_refused_in_one_line_without_a_part_of_a_password(url):
    with pytest.raises(SettingsError) as refusal:
        load({"INGOT_BROKER_URL": url})
    line = str(refusal.value)
    assert "\n" not in line
    assert line.startswith("INGOT_BROKER_URL: ")
    assert any(form in line for form in FORMS.values())
    assert not any(word in line for word in ("secret", "cret", "se#"))


@pytest.mark.parametrize("prefix", ["", "a:b", "a b", "ä", "x" * 65])
def test_a_prefix_is_a_word(prefix):
    with pytest.raises(SettingsError, match=r"^INGOT_BROKER_PREFIX: "):
        load({"INGOT_BROKER_PREFIX": prefix})


def test_each_prefix_has_its_queues_and_exchanges():
    def names(prefix):
        application = queue.celery(
            load({"INGOT_BROKER_URL": "redis://h", "INGOT_BROKER_PREFIX": prefix})
        )
        queues, conf = queue.queues_of(application), application.conf
        application.close()
        return {
            queues.shared, queues.steps("c"), queues.now("c"),
            conf.control_exchange, conf.event_exchange,
        }  # fmt: skip

    assert {"conductor.now", "conductor.c", "conductor.c.now"} < names("ingot")
    assert len(names("a") | names("b") | names("ingot")) == 15
