"""Messages and handshakes of viewers of VNC, hostile ones among them."""

import pytest

from drivers.net import rfb
from drivers.net.rfb import LONGEST, Malformed, Messages, Viewer, version_of

POINTER = b"\5\1" + bytes(4)
KEY = b"\4\1\0\0" + ord("a").to_bytes(4)
QEMU_KEY = b"\xff\0\0\1" + ord("a").to_bytes(4) + (30).to_bytes(4)
UPDATE = b"\3\0" + bytes(8)
FORMAT = bytes(20)
TEXT = b"\6\0\0\0" + (5).to_bytes(4) + b"paste"


def encodings(*numbers):
    items = b"".join(number.to_bytes(4, signed=True) for number in numbers)
    return b"\2\0" + len(numbers).to_bytes(2) + items


STREAM = [FORMAT, encodings(0, 7), UPDATE, KEY, POINTER, TEXT, QEMU_KEY, UPDATE]
INPUT = [False, False, False, True, True, True, True, False]


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_messages_are_whole_however_they_arrive(size):
    messages, data = Messages(), b"".join(STREAM)
    parts = [data[begin : begin + size] for begin in range(0, len(data), size)]
    cut = [message for part in parts for message in messages.feed(part)]
    assert STREAM == [message.data for message in cut]
    assert INPUT == [message.is_input for message in cut]


@pytest.mark.parametrize("kind", [1, 7, 150, 248, 250, 251, 254])
def test_a_message_of_an_unknown_type_is_refused(kind):
    with pytest.raises(Malformed, match=f"message type {kind} "):
        Messages().feed(bytes((kind,)) + bytes(50))


def test_a_message_of_qemu_that_is_no_key_is_refused():
    with pytest.raises(Malformed, match="message type 255"):
        Messages().feed(b"\xff\1\0\0")


@pytest.mark.parametrize("size", [LONGEST + 1, 1 << 31, (1 << 32) - 1])
def test_a_text_that_is_too_long_is_refused_before_it_arrives(size):
    with pytest.raises(Malformed, match="too long"):
        Messages().feed(b"\6\0\0\0" + size.to_bytes(4))


def test_only_known_encodings_pass():
    jpeg, cursor, continuous, desktop_size, clipboard = (
        -28,
        -239,
        -313,
        -308,
        0xC0A1E5CE - (1 << 32),
    )
    request = encodings(7, jpeg, 16, cursor, -224, continuous, desktop_size, -247, clipboard, -258)
    (message,) = Messages().feed(request)
    assert encodings(7, 16, -224, -247, -258) == message.data


def test_all_encodings_may_be_unknown():
    (message,) = Messages().feed(encodings(50, 260))
    assert encodings() == message.data


@pytest.mark.parametrize(
    ("line", "version"),
    [
        (b"RFB 003.003\n", (3, 3)), (b"RFB 003.005\n", (3, 3)), (b"RFB 003.006\n", (3, 3)),
        (b"RFB 003.007\n", (3, 7)), (b"RFB 003.008\n", (3, 8)), (b"RFB 003.889\n", (3, 8)),
        (b"RFB 004.001\n", (3, 8)), (b"RFB 005.000\n", (3, 8)),
    ],
)  # fmt: skip
def test_versions_are_those_of_the_protocol(line, version):
    assert version == version_of(line)


@pytest.mark.parametrize(
    "line", [b"SSH-2.0-dropb", b"RFB 003.00x\n", b"RFB 3.8     ", b"", b"HTTP/1.1 400", bytes(12)]
)
def test_another_protocol_is_told(line):
    with pytest.raises(Malformed, match="does not speak RFB"):
        version_of(line)


@pytest.mark.parametrize("line", [b"RFB 003.002\n", b"RFB 000.000\n"])
def test_an_older_version_is_told(line):
    with pytest.raises(Malformed, match=r"older than 3\.3"):
        version_of(line)


@pytest.mark.parametrize(
    ("chunks", "answers"),
    [
        ([b"RFB 003.008\n", b"\1", b"\0"], [b"\1\1", bytes(4), b""]),
        ([b"RFB 003.008\n", b"\1", b"\1"], [b"\1\1", bytes(4), b""]),
        ([b"RFB 003.007\n", b"\1", b"\1"], [b"\1\1", b"", b""]),
        ([b"RFB 003.003\n", b"\1"], [b"\0\0\0\1", b""]),
        ([b"RFB 003.008\n\1\1"], [b"\1\1" + bytes(4)]),
        ([b"RFB 00", b"3.008\n", b"\1\1"], [b"", b"\1\1", bytes(4)]),
    ],
)
def test_the_handshake_of_a_viewer_needs_no_authentication(chunks, answers):
    viewer = Viewer()
    replies = []
    for data in chunks:
        assert not viewer.is_ready
        answer, messages = viewer.feed(data)
        replies.append(answer)
        assert [] == messages
    assert answers == replies
    assert viewer.is_ready
    answer, messages = viewer.feed(KEY)
    assert (b"", [(KEY, True)]) == (answer, messages)


def test_messages_behind_the_handshake_are_not_lost():
    _, messages = Viewer().feed(b"RFB 003.008\n\1\1" + UPDATE + KEY)
    assert [UPDATE, KEY] == [message.data for message in messages]


@pytest.mark.parametrize("kind", [0, 2, 16, 19])
def test_a_viewer_that_chooses_another_security_type_is_refused(kind):
    with pytest.raises(Malformed, match="not offered"):
        Viewer().feed(b"RFB 003.008\n" + bytes((kind,)))


def test_each_passed_encoding_adds_no_message_that_is_unknown():
    """The list is closed: each number beside rectangles is one whose messages are known here."""
    pseudo = {number for number in rfb.ENCODINGS if number < 0}
    assert {-223, -224, -258, *range(-256, -246)} == pseudo
