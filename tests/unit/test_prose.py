"""Wording of docstrings, comments, messages and documentation (docs/style.md)."""

import pytest

from tests import prose

#: rule -> a text that breaks it, and the same fact in good words.
EXAMPLES = {
    "came-of": ("What came of an attempt.", "Outcome of an attempt."),
    "whoever": ("Whoever holds the lease may renew it.", "The holder renews its lease."),
    "nobody": ("The node is driven by nobody.", "No conductor drives the node."),
    "anew": ("The command is sent anew.", "The command is sent again."),
    "lest": ("The row is locked, lest it changes.", "The row is locked, so that it cannot change."),
    "told": ("The agent is told its token.", "The API sends the agent its token."),
    "be-had": ("The image cannot be had.", "The image cannot be fetched."),
    "sign-of-life": ("The last sign of life of the agent.", "The agent's last heartbeat."),
    "as-above": ("Ports; the same.", "Ports are deleted in the same transaction."),
    "own": ("A message to the own queue.", "A message to its own queue."),
    "clause-first": ("What a verb needs.", "Requirements of a verb. Where none is set, all apply."),
    "clause-as-subject": ("It stops. What runs is finished.", "It stops. What does it wait for?"),
    "clause-after-preposition": ("The list of what is queued.", "The list says what is queued."),
    "look-what": ("The sweep looks what changed.", "The sweep reads the power states."),
}


def test_no_text_has_a_banned_phrase():
    assert {} == prose.counts(), "reword these; `python -m tests.prose FILE` shows the phrases"


@pytest.mark.parametrize("rule", prose.RULES)
def test_each_rule_matches_its_example_and_not_the_better_wording(rule, tmp_path):
    bad, good = EXAMPLES[rule]
    file = tmp_path / "module.py"
    for source in ('"""{}"""\n', "# {}\n", 'raise Conflict("{}")\n', 'log.info(f"{} {{x}}")\n'):
        file.write_text(source.format(bad))
        assert rule in {match.rule for match in prose.matches(file)}
        file.write_text(source.format(good))
        assert [] == prose.matches(file)


def test_texts_are_docstrings_comments_and_messages_but_not_code(tmp_path):
    file = tmp_path / "module.py"
    file.write_text(
        '"""A docstring of two\nlines."""\n'
        "# A comment\n"
        "# of two lines.\n"
        "told = {'what': 'nobody'}\n"
        'raise Error(f"message about {told} " "in parts")\n'
    )
    assert [
        (1, "A docstring of two lines."),
        (3, "A comment of two lines."),
        (6, "message about X in parts"),
    ] == list(prose.texts(file))


def test_texts_of_a_page_are_paragraphs_items_and_cells_but_not_code(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# What is new\n\nA paragraph with `nobody` in\ntwo lines.\n\n- One item.\n- [Two](x.md).\n\n"
        "| setting | meaning |\n| --- | --- |\n| `told` | a limit |\n\n```\nwhoever\n```\n"
    )
    texts = [text for _, text in prose.texts(page)]
    assert texts[:4] == [
        "Heading What is new", "A paragraph with X in two lines.", "One item.", "Two.",
    ]  # fmt: skip
    assert {"setting", "meaning", "X", "a limit"} <= set(texts)
    assert [] == prose.matches(page)


def test_a_file_that_is_not_python_has_its_comments_checked(tmp_path):
    file = tmp_path / ".env.example"
    file.write_text("# Ask nobody.\nNOBODY=1\n")
    assert ["nobody"] == [match.rule for match in prose.matches(file)]


def test_the_program_prints_each_match_with_its_rule(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    (tmp_path / "app").mkdir()
    file = tmp_path / "app" / "module.py"
    file.write_text('"""Nobody calls. It is done anew."""\n')
    assert 1 == prose.main([])
    assert capsys.readouterr().out.startswith("app/module.py:1: nobody (name the actor): ")
    file.write_text('"""No client calls."""\n')
    assert 0 == prose.main([])
