"""Sentences built from the parts of a message."""

import pytest

from app.text.sentences import joined


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
