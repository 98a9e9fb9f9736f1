"""A reader of the documentation at a terminal: tests.support.reader."""

import os

import pytest

from tests.support.reader import CTRL_C, PASSWORD, Reader

ASK = "read -p 'Password: ' -s word; echo; echo \"typed $word\""
CONFIRM = "read -p 'clean: 1 node? [y/N]: ' word; echo \"typed $word\""


@pytest.fixture
def reader(tmp_path):
    return Reader(tmp_path, {"PATH": os.environ["PATH"], "TERM": "dumb"})


def test_variables_and_the_folder_last_from_one_command_to_the_next(reader):
    answers = reader.types(["name=rack1", "mkdir a && cd a", "echo $name; pwd"])
    assert [0, 0, 0] == [answer.status for answer in answers]
    assert ["rack1", f"{reader.folder}/a"] == answers[2].text.split()


def test_no_command_follows_one_that_fails_unless_it_may(reader):
    commands = ["false", "echo on"]
    assert [1] == [answer.status for answer in reader.types(commands)]
    assert [1, 0] == [answer.status for answer in reader.types(commands, fails=[0])]


def test_questions_of_a_program_on_a_terminal_are_answered(reader):
    password, confirmation = reader.types([ASK, CONFIRM])
    assert f"typed {PASSWORD}" in password.text
    assert "typed y" in confirmation.text


def test_a_question_is_answered_once_if_its_program_pauses_after_the_line(reader):
    pauses = "echo; sleep 0.5; read -t 0.1 -s second; echo \"then '$second'\""
    (answer,) = reader.types([f"read -p 'Password: ' -s word; {pauses}"])
    assert "then ''" in answer.text


def test_keys_are_pressed_and_functions_called_when_their_texts_are_shown(reader):
    called = []
    keys = {0: [("one", lambda: called.append(1)), ("one", CTRL_C)]}
    first_result, second_result = reader.types(["echo one; sleep 600", "echo two"], keys)
    assert (130, 0, [1]) == (first_result.status, second_result.status, called)
    assert "two" in second_result.text


def test_a_command_that_ends_before_its_text_is_shown_is_reported(reader):
    with pytest.raises(AssertionError, match="no 'ready' in"):
        reader.types(["echo broken"], {0: [("ready", CTRL_C)]})
