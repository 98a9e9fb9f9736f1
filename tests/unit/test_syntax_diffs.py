"""Diffs by places of the syntax: `tests.support.syntax_diffs`."""

import pytest

from tests.support.syntax_diffs import change

SOURCE = '''"""Module."""

import os
from sys import path


class State:
    """A state."""

    A = "a"
    B: str = "b"

    def name(self):
        return self.A


#: All of them.
ALL = (State.A, State.B)
TABLE = {
    "a": call(1, key=2),
    "b": {1, 2},
    **OTHER,
}  # fmt: skip
EMPTY = ()
TEXT = """
one
"""
'''


def added(place, *lines):
    """Return the lines that a hunk adds to the source: the number of the line before -> line."""
    text = change(SOURCE, f"@@ {place}\n" + "".join(f"+{line}\n" for line in lines))
    before, after = SOURCE.splitlines(), text.splitlines()
    assert before == [line for line in after if line not in set(after) - set(before)]
    return {
        after[number - 1]: line for number, line in enumerate(after) if line not in before
    }  # fmt: skip


@pytest.mark.parametrize(
    ("place", "line", "previous"),
    [
        ("imports", "import re", "from sys import path"), ("class State", "    C = 3", '    B: str = "b"'),
        ("class State", "    def other(self): ...", "        return self.A"),
        ("class State.def name", "        # more", "        return self.A"),
        ("before ALL", "NEW = 1", ""), ("before class State", "NEW = 1", ""), ("TABLE", '    "c": 3,', "    **OTHER,"),
        ("TEXT", "two", "one"),
    ],
)  # fmt: skip
def test_lines_are_added_at_the_end_of_a_place(place, line, previous):
    assert {previous: line} == added(place, line)


@pytest.mark.parametrize(
    ("place", "line", "old", "new"),
    [
        ("ALL", "State.C,", "(State.A, State.B)", "(State.A, State.B, State.C)"), ("EMPTY", "1,", "()", "(1)"),
        ('TABLE["a"]', "more=3", "call(1, key=2)", "call(1, key=2, more=3)"), ('TABLE["b"]', "    3,", "{1, 2}", "{1, 2, 3}"),
        ("class State.A", "", '"a"', None),
    ],
)  # fmt: skip
def test_an_entry_is_added_in_the_line_of_the_others(place, line, old, new):
    diff = f"@@ {place}\n+{line}\n"
    if new is None:
        with pytest.raises(ValueError, match="nothing can be added"):
            change(SOURCE, diff)
    else:
        assert SOURCE.replace(old, new) == change(SOURCE, diff)


def test_two_additions_at_one_place_do_not_depend_on_each_other():
    one, other = '@@ TABLE\n+    "c": 3,\n', '@@ TABLE\n+    "d": 4,\n@@ ALL\n+State.C\n'
    assert sorted(change(change(SOURCE, one), other).splitlines()) == sorted(
        change(change(SOURCE, other), one).splitlines()
    )


def test_a_comment_above_a_statement_belongs_to_it():
    assert "NEW = 1\n#: All of them.\nALL" in change(SOURCE, "@@ before ALL\n+NEW = 1\n")


def test_a_diff_without_a_place_is_a_new_file():
    assert "a\n\nb\n" == change("", "+a\n+\n+b\n")


@pytest.mark.parametrize(
    ("diff", "words"),
    [
        ("+a\n", "name a place"), (" a\n@@ ALL\n+b\n", "name a place"), ("@@ NONE\n+a\n", "there is no NONE"),
        ('@@ TABLE["z"]\n+a\n', "there is no TABLE"), ("@@ ALL[0]\n+a\n", "there is no ALL"), ("@@ ALL\n a\n", "only added"),
        ("@@ ALL\n-State.A\n", "not hunks"), ("@@ class State.C\n+a\n", "there is no State.C"),
    ],
)  # fmt: skip
def test_a_diff_that_does_not_fit_the_file_is_refused(diff, words):
    with pytest.raises(ValueError, match=words):
        change(SOURCE, diff)
