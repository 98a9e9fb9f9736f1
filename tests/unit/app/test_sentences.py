"""Parts of an answer become sentences."""

import pytest

from app.sentences import joined


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        (("it burns", "put it out."), "It burns. Put it out."),
        (("Really?", None, "", "  ", "no!"), "Really? No!"),
        (("one\nline\n", "two   words"), "One line. Two words."),
        (("http://a/b is gone",), "http://a/b is gone."),
        (("deploy.write_image: no",), "deploy.write_image: no."),
        ((), ""),
    ],
)
def test_parts_become_sentences_with_a_capital_and_a_stop(parts, told):
    assert told == joined(*parts)
