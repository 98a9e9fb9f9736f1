"""Code blocks of the documentation: languages, settings, and commands, each typed or excused."""

import re
from functools import cache
from itertools import product
from pathlib import Path

import pytest
import typer.main

from app.config import settings
from tests.e2e import documented_pages
from tests.e2e.documented_pages import NOT_TYPED, PAGES
from tests.support import command_blocks
from tests.support.command_blocks import resembles
from workers import cli

ROOT = Path(__file__).parents[2]
#: A command in an indented block, which has no language.
INDENTED = re.compile(r"\n\n    (?:\$ |(?:ingot|make|git|baremetal|openstack|curl|python3?) )")


#: Language of a block of settings -> form of the file.
FORMS = {"toml": ".toml", "ini": ".conf"}


@pytest.mark.parametrize("page", sorted(set(command_blocks.PAGES) - {"containers"}))
def test_each_block_of_code_has_a_language(page):
    assert [] == [line for line, language, _ in command_blocks.fences(page) if not language]
    assert not INDENTED.search(command_blocks.PAGES[page].read_text())


#: Pages whose blocks of TOML are other files than settings.
OTHER_FILES = {"drivers", "simulator", "testing"}


def test_each_block_of_settings_is_accepted(tmp_path):
    accepted = 0
    for page in sorted(set(command_blocks.PAGES) - OTHER_FILES):
        for _, language, text in command_blocks.fences(page):
            if language in FORMS:
                file = tmp_path / f"settings{FORMS[language]}"
                file.write_text(text)
                settings.load({"INGOT_CONFIG": str(file)})
                accepted += 1
    assert 10 < accepted


def test_each_command_is_typed_by_a_test_or_excused():
    commands = [
        command for page in command_blocks.PAGES for command in command_blocks.commands(page)
    ]
    assert 150 < len(commands)
    assert [] == [
        str(command)
        for command in commands
        if command.page not in PAGES and not documented_pages.excuses(command)
    ], "type it (PAGES), or say why not (NOT_TYPED)"
    used = {row for command in commands for row in documented_pages.excuses(command)}
    assert set() == set(NOT_TYPED) - used, "rows about no command"
    assert set() == {name for name in PAGES if not documented_pages.typed(name)}


def test_rows_of_the_tables_are_about_commands_of_their_pages():
    idle = [
        (name, start)
        for name, page in PAGES.items()
        for start in (*page.before, *page.keys, *(set(page.fails) - {documented_pages.NONE}))
        if not any(command.text.startswith(start) for command in documented_pages.typed(name))
    ]
    idle += [
        (name, text)
        for name, page in PAGES.items()
        for text in page.replaced
        if not any(text in command.text for command in documented_pages.typed(name))
    ]
    idle += [
        (name, start)
        for name, page in PAGES.items()
        for start in set(page.differs) - {documented_pages.NONE}
        if not any(
            line.startswith(start)
            for command in documented_pages.typed(name)
            for line in command.output
        )
    ]
    assert [] == idle


def test_the_tests_that_excuse_commands_exist():
    matches = [re.match(r"tests/\S+\.py", reason) for reason in NOT_TYPED.values()]
    paths = [match[0] for match in matches if match]
    assert 5 < len(paths)
    assert [] == [path for path in paths if not (ROOT / path).exists()]


@pytest.mark.parametrize(
    ("example", "output", "alike"),
    [
        ("240 nodes in 26 waves", "3 nodes  in\n1 waves\n", True),
        ("240 nodes in 26 waves", "1 node in 1 wave\n", True),
        ("240 nodes in 26 waves", "1 node in 1 group\n", False),
        ("5b4b1a1c-...: held", "7a2568a6-ef76-43bc-807b-6954d631e674: held", True),
        ("node_name  since", "node name  since", False),
        ("done in 0.2 s", "done in 12 s", True),
        ("wave 2: r1-u4, ...", "wave 2: r1-u4, r1-u5", True),
    ],
)
def test_shown_output_resembles_the_output_but_for_numbers(example, output, alike):
    assert alike == resembles(example, output)


def test_sessions_and_scripts_are_split_into_commands(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(
        "```console\n$ ingot a \\\n   --b\nshown\n\nshown too\n$ ingot c '{\n}'\n```\n"
        "1. item\n\n   ```sh\n   for n in 1; do\n     ingot d\n   done\n   ingot e\n   ```\n"
        "```text\ningot f\n```\n"
    )
    monkeypatch.setitem(command_blocks.PAGES, "page", page)
    assert [
        (2, "ingot a \\\n   --b", ("shown", "shown too")),
        (7, "ingot c '{\n}'", ()),
        (13, "for n in 1; do\n  ingot d\ndone", ()),
        (16, "ingot e", ()),
    ] == [tuple(command)[1:] for command in command_blocks.commands("page")]


#: A command within a sentence. Words in capitals stand for others.
INLINE = re.compile(r"`ingot ([a-z][^`]*)`")


#: Group -> its command where none is named.
DEFAULTS = {"config": "show"}


@cache
def program():
    return typer.main.get_command(cli.app)


def unknown(words):
    """Return the first word of a command line that names no command or option, or None."""
    command, words_left = program(), list(words)
    while words_left and words_left[0] in getattr(command, "commands", {}):
        command = command.commands[words_left.pop(0)]
    if command.name in DEFAULTS:
        command = command.commands[DEFAULTS[command.name]]
    if hasattr(command, "commands") and words_left and re.match("[a-z]", words_left[0]):
        return words_left[0]
    options_of_command = {
        option for param in command.params for option in (*param.opts, *param.secondary_opts)
    }
    options = [word.partition("=")[0] for word in words_left if word.startswith("--")]
    return next((option for option in options if option not in options_of_command), None)


def test_commands_within_a_sentence_have_names_and_options_that_exist():
    lines = [
        (page, words)
        for page, path in command_blocks.PAGES.items()
        for text in INLINE.findall(re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL))
        for words in product(*(word.split("|") for word in text.replace("\\|", "|").split()))
    ]
    assert 300 < len(lines)
    assert [] == [(page, words) for page, words in lines if unknown(words)]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("node why NODE", None), ("node wy NODE", "wy"), ("node list --hold x", None),
        ("node list --hld x", "--hld"), ("user create ann", None), ("user crate ann", "crate"),
        ("frobnicate", "frobnicate"), ("up --hots=x", "--hots"), ("node ...", None),
    ],
)  # fmt: skip
def test_unknown_words_of_a_command_line_are_found(line, word):
    assert word == unknown(line.split())
