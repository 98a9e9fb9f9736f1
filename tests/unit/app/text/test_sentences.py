"""Sentences built from the parts of a message."""

import pytest

from app.text.sentences import counted, enumerated, joined


@pytest.mark.parametrize(
    ("parts", "sentences"),
    [
        (("it burns", "put it out."), "It burns. Put it out."),
        (("Really?", None, "", "  ", "no!"), "Really? No!"),
        (("one\nline\n", "two   words"), "One line. Two words."),
        (("http://a/b is gone",), "http://a/b is gone."),
        (("deploy.write_image: no",), "deploy.write_image: no."),
        ((), ""),
    ],
)
def test_parts_become_sentences_with_a_capital_letter_and_a_full_stop(parts, sentences):
    assert sentences == joined(*parts)


@pytest.mark.parametrize(
    ("phrases", "options", "text"),
    [
        ([], {}, ""),
        (["a", "b"], {}, "a, b"),
        (["a", "b", "c", "d"], {}, "a, b and 2 more"),
        (["a", "b", "c"], {"separator": "; "}, "a; b; and 1 more"),
        (["a", "b"], {"total": 7}, "a, b and 5 more"),
        (["a"], {"total": 1}, "a"),
    ],
)
def test_the_first_phrases_are_named_and_the_others_counted(phrases, options, text):
    assert text == enumerated(phrases, 2, **options)


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 failed nodes"), (1, "1 failed node"), (2, "2 failed nodes")]
)
def test_one_thing_is_counted_without_a_plural(number, text):
    assert text == counted(number, "failed node")
