"""One caller types at a console, and no copy of a document types again."""

import pytest

from workers.consoles.writers import REMEMBERED, WRITER_TIME, Writers


class Desk:
    """The writers of a session, on a clock of the test."""

    def __init__(self):
        self.now, self.typed, self.changes = 100.0, [], []
        self.writers = Writers(
            "session",
            self.typed.append,
            lambda *change: self.changes.append(change),
            lambda: self.now,
        )
        self.numbers = {}

    def send(self, holder, act, data=b"", **fields):
        number = self.numbers[holder] = self.numbers.get(holder, -1) + 1
        document = {
            "session": "session", "holder": holder, "number": number, "act": act, "name": holder,
        }  # fmt: skip
        self.writers.accept({**document, **fields}, data)


@pytest.fixture
def desk():
    return Desk()


def test_only_the_writer_types(desk):
    desk.send("ann", "type", b"too early")
    desk.send("ann", "claim")
    desk.send("bob", "claim")
    desk.send("bob", "type", b"not me")
    desk.send("ann", "type", b"ls\r")
    assert ([b"ls\r"], [("ann", "ann")]) == (desk.typed, desk.changes)


def test_a_writer_that_leaves_is_stolen_from_or_is_silent_makes_place(desk):
    desk.send("ann", "claim")
    desk.send("bob", "steal")
    desk.send("ann", "type", b"x")
    desk.send("bob", "release")
    desk.send("ann", "claim")
    desk.now += WRITER_TIME - 1
    desk.send("ann", "claim")
    desk.now += WRITER_TIME - 1
    desk.writers.expire()
    desk.send("bob", "claim")
    desk.now += 1
    desk.writers.expire()
    desk.send("bob", "claim")
    assert [("ann", "ann"), ("bob", "bob"), ("", ""), ("ann", "ann"), ("", ""), ("bob", "bob")] == (
        desk.changes
    )
    assert [] == desk.typed


def test_a_copy_an_older_document_and_one_of_another_session_type_nothing(desk):
    desk.send("ann", "claim")
    desk.send("ann", "type", b"1", number=5)
    for number in (5, 4, "6", None, 5.5):
        desk.send("ann", "type", b"again", number=number)
    desk.send("ann", "type", b"elsewhere", number=7, session="earlier")
    desk.send("ann", "type", b"2", number=8)
    assert [b"1", b"2"] == desk.typed


def test_documents_without_sense_are_ignored(desk):
    for document in ({}, {"session": "session"}, {"session": "session", "holder": 3, "number": 0}):
        desk.writers.accept(document, b"x")
    desk.send("ann", "dance", b"x")
    desk.send("ann", "claim", name={"a": 1})
    assert [] == desk.typed


def test_a_program_at_the_port_types_only_while_there_is_no_other_writer(desk):
    desk.writers.type_if_free("tcp 1", "127.0.0.1:1", b"a")
    desk.send("ann", "claim")
    desk.send("ann", "type", b"no")
    desk.writers.release("tcp 1")
    desk.send("ann", "claim")
    desk.writers.type_if_free("tcp 2", "127.0.0.1:2", b"no")
    desk.send("ann", "type", b"b")
    assert [b"a", b"b"] == desk.typed


def test_the_numbers_of_many_holders_need_little_memory(desk):
    for number in range(3 * REMEMBERED):
        desk.send(f"holder {number}", "release")
    assert REMEMBERED == len(desk.writers._numbers)
