"""Grammar of selections: the tree of each form of an expression, and the place of each error."""

from datetime import datetime, timedelta

import pytest

from app.errors import Invalid
from app.selection import grammar
from app.selection.grammar import FieldType, Kind
from app.selection.tree import (
    All,
    Comparison,
    Not,
    Operator,
    Pattern,
    Some,
    Word,
    fields_of,
)

TYPES = {
    "name": FieldType(Kind.TEXT), "owner": FieldType(Kind.TEXT),
    "state": FieldType(Kind.CHOICE, ("clean", "clean failed", "active")),
    "retired": FieldType(Kind.FLAG), "created_at": FieldType(Kind.TIME),
    "extra.rack": FieldType(Kind.DOCUMENT, together=False),
    "extra.a.b-c:d": FieldType(Kind.DOCUMENT, together=False),
}  # fmt: skip
EQUAL, CONTAINS = Operator.EQUAL, Operator.CONTAINS
A, B, C = Word("a"), Word("b"), Word("c")


def parse(text):
    return grammar.parse(text, TYPES.get, tuple(TYPES))


def refusal(text):
    """Return place and reason of the refusal of an expression."""
    with pytest.raises(Invalid) as error:
        parse(text)
    place, _, reason = str(error.value).partition(" of where: ")
    return int(place.removeprefix("Character ")), reason


def name(*values, operator=EQUAL):
    return Comparison("name", operator, values)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a b", All((A, B))), ("a and b", All((A, B))), ("a AND b", All((A, B))), ("a or b", Some((A, B))),
        ("a Or b", Some((A, B))), ("a b or c", Some((All((A, B)), C))), ("a or b c", Some((A, All((B, C))))),
        ("(a or b) c", All((Some((A, B)), C))), ("a(b)c", All((A, B, C))), ("(a)or(b)", Some((A, B))),
        ("not a b", All((Not(A), B))), ("not(a b)", Not(All((A, B)))), ("NOT not a", Not(Not(A))),
        ("not'a'", Not(A)), ('not"a"', Not(A)), ("a and'b'", All((A, B))), ('a or"b"', Some((A, B))),
        ("nota", Word("nota")), ("order", Word("order")), ("android", Word("android")), ("a  \t b", All((A, B))),
        (" ( a ) ", A), ("a or not b", Some((A, Not(B)))), ("oracle or orb", Some((Word("oracle"), Word("orb")))),
        ("a orb", All((A, Word("orb")))),
    ],
)  # fmt: skip
def test_not_binds_closest_then_and_then_or(text, tree):
    assert tree == parse(text)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("name=a", name("a")), ("name==a", name("a")), ("name = a", name("a")), ("name!=a", Not(name("a"))),
        ("name~a", name("a", operator=CONTAINS)), ("name~a*b", name("a*b", operator=CONTAINS)),
        ("name=a,b", name("a", "b")), ("name=a, b", name("a", "b")), ("name!=a,b", Not(name("a", "b"))),
        ("name in (a, b)", name("a", "b")), ("name in(a,b)", name("a", "b")), ("name IN ( a )", name("a")),
        ("name Not In (a)", Not(name("a"))), ("name not  in (a, 'b c')", Not(name("a", "b c"))),
        ("name='a, (b)'", name("a, (b)")), ('name="a\'b"', name("a'b")), (r"name='a\'b\\'", name("a'b\\")),
        ("name='a\\\nb'", name("a\nb")), ("name='a*b'", name("a*b")), ("name=a=b", name("a=b")),
        ("name=a*b", name(Pattern(("a", "b")))), ("name=**a**", name(Pattern(("", "a", "")))),
        ("name=*", name(Pattern(("", "")))), ("name=a*b*c*d*e", name(Pattern(tuple("abcde")))),
        ("name=a b", All((name("a"), B))), ("name = in", name("in")), ("name=" + "a" * 255, name("a" * 255)),
        ("a*b", Word(Pattern(("a", "b")))), ("'a*b'", Word("a*b")), ("'a b'", Word("a b")), ("name", Word("name")),
        ("10.0.0.5", Word("10.0.0.5")), ("aa:bb", Word("aa:bb")), ("not 'name=a'", Not(Word("name=a"))),
    ],
)  # fmt: skip
def test_texts_and_words(text, tree):
    assert tree == parse(text)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("state=clean failed", ["clean failed"]), ("state=clean", ["clean"]), ("state='clean failed'", ["clean failed"]),
        ('state="active"', ["active"]), ("state=clean, active", ["clean", "active"]), ("state=clean*", [Pattern(("clean", ""))]),
        ("state in (clean failed, active)", ["clean failed", "active"]),
    ],
)  # fmt: skip
def test_a_choice_may_have_blanks_without_quotes(text, values):
    assert Comparison("state", EQUAL, tuple(values)) == parse(text)


def test_what_follows_a_choice_is_another_term():
    clean = Comparison("state", EQUAL, ("clean",))
    assert All((clean, Word("fail"))) == parse("state=clean fail")
    assert All((Comparison("state", EQUAL, ("clean failed",)), A)) == parse("state=clean failed a")
    assert Comparison("state", CONTAINS, ("ean",)) == parse("state~ean")


@pytest.mark.parametrize("word", ["true", "yes", "on", "1", "True", "YES"])
def test_words_for_true(word):
    assert Comparison("retired", EQUAL, (True,)) == parse(f"retired={word}")


@pytest.mark.parametrize("word", ["false", "no", "off", "0", "False", "OFF"])
def test_words_for_false(word):
    assert Comparison("retired", EQUAL, (False,)) == parse(f"retired = {word}")


@pytest.mark.parametrize(
    "text", ["retired", "retired a", "(retired)", "retired and a", "not retired"]
)
def test_a_flag_may_stand_alone(text):
    retired = Comparison("retired", EQUAL, (True,))
    trees = {"retired": retired, "(retired)": retired, "not retired": Not(retired)}
    assert trees.get(text, All((retired, A))) == parse(text)


@pytest.mark.parametrize("text", ["retired-1", "retired*", "retired/a"])
def test_a_word_that_starts_with_the_name_of_a_flag_is_a_word(text):
    value = Pattern(("retired", "")) if text.endswith("*") else text
    assert Word(value) == parse(text)


@pytest.mark.parametrize(
    ("text", "operator", "value"),
    [
        ("since 8h", Operator.AT_LEAST, timedelta(hours=8)), ("before 2d", Operator.LESS, timedelta(days=2)),
        ("> 90s", Operator.MORE, timedelta(seconds=90)), ("<=5m", Operator.AT_MOST, timedelta(minutes=5)),
        ("SINCE 3w", Operator.AT_LEAST, timedelta(weeks=3)), (">=36500d", Operator.AT_LEAST, timedelta(days=36500)),
        ("<2026-11-26", Operator.LESS, datetime(2026, 11, 26)), ("since '2026-11-26 08:00'", Operator.AT_LEAST, datetime(2026, 11, 26, 8)),
        ("before 2026-11-26T08:00:00Z", Operator.LESS, datetime(2026, 11, 26, 8)),
        ("> 2026-11-26T08:00+05:30", Operator.MORE, datetime(2026, 11, 26, 2, 30)),
    ],
)  # fmt: skip
def test_times_are_spans_before_now_or_utc(text, operator, value):
    assert Comparison("created_at", operator, (value,)) == parse(f"created_at {text}")


@pytest.mark.parametrize(
    ("text", "operator", "value", "keys"),
    [
        ("extra.rack=4", EQUAL, "4", ("rack",)), ("extra.rack<4", Operator.LESS, 4.0, ("rack",)),
        ("extra.rack<=-4.5", Operator.AT_MOST, -4.5, ("rack",)), ("extra.rack > 0.123456789", Operator.MORE, 0.123456789, ("rack",)),
        ("extra.rack>=" + "9" * 15, Operator.AT_LEAST, 999999999999999.0, ("rack",)),
        ("extra.a.b-c:d~x", CONTAINS, "x", ("a", "b-c:d")), ("extra.a.b-c:d in (x)", EQUAL, "x", ("a", "b-c:d")),
    ],
)  # fmt: skip
def test_keys_of_documents_take_all_operators(text, operator, value, keys):
    assert Comparison("extra", operator, (value,), keys) == parse(text)


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("name<a", 5, "name is compared by =, !=, in, ~, not by <"), ("state>=a", 6, "compared by =, !=, in, ~"),
        ("retired~a", 8, "compared by =, !=, in, not by ~"), ("created_at=8h", 11, "<, <=, >, >=, since, before, not by ="),
        ("created_at in (8h)", 16, "since, before, not by in"), ("created_at~8h", 11, "since"), ("name in (a", 11, "',' or ')'"),
        ("name in (a b)", 12, "',' or ')'"), ("name in ()", 10, "a value of name is missing"), ("name=", 6, "is missing"),
        ("name=,a", 6, "is missing"), ("name = 'a", 8, "not closed"), ('name="a', 6, "not closed"), ("'a", 1, "not closed"),
        ('"a', 1, "not closed"), ('a"', 2, "not closed"), ("(a", 3, "')' is missing"), ("a)", 2, "')' is not expected"), ("", 1, "expected a comparison"),
        ("()", 2, "expected a comparison as driver=redfish, or a word, not ')'"), ("a or", 5, "expected a comparison"), ("a or or b", 6, "before 'or'"),
        ("and a", 1, "before 'and'"), ("not or a", 5, "before 'or'"), ("nam=a", 1, "there is no field 'nam'; the nearest is 'name'"),
        ("zzz=a", 1, "there is no field 'zzz'"), ("name=a*b*c*d*e*f", 6, "at most 4 in a value"), ("a*b*c*d*e*f", 1, "at most 4"),
        ("name=" + "a" * 256, 6, "at most 255"), ("name~" + "a" * 256, 6, "at most 255"), ("name='" + "a" * 256 + "'", 6, "at most 255"), ("a" * 256, 1, "at most 255"),
        ("extra.rack<x", 12, "compares numbers"), ("extra.rack<1x", 12, "compares numbers"), ("extra.rack<" + "1" * 16, 12, "numbers"), ("extra.rack<1.1234567891", 12, "numbers"),
        ("retired=maybe", 9, "is true or false"), ("state='cleen'", 7, "the nearest is 'clean'"), ("state in ('clean*')", 11, "'clean*' is no value"), ("state=cleen", 7, "the nearest is 'clean'; there are clean, clean failed, active"),
        ("created_at since never", 18, "neither a time span before now, as 8h"), ("created_at since 36501d", 18, "36500 days"), ("created_at <2026-13-01", 13, "neither"),
        ("created_at since 0001-01-01T00:00+10:00", 18, "neither"), ("created_at since 1y", 18, "neither"), ("extra.rack<1,2", 13, "not ','"), ("a\0b", 2, "NUL"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_place_and_what_would_be_right(text, place, hint):
    right_place, reason = refusal(text)
    assert hint in reason
    assert place == right_place


def test_limits_are_those_of_the_documentation():
    assert All((name("a"),) * 100) == parse("name=a " * 100)
    assert (701, "too many parts: at most 100 comparisons and words") == refusal("name=a " * 101)
    assert All((A,) * 10) == parse("a " * 10)
    assert (21, "too many words without a field: at most 10") == refusal("a " * 10 + "'a'")
    parse("not " * 19 + "a")
    assert "20 levels" in refusal("not " * 20 + "a")[1]
    parse("(" * 19 + "a" + ")" * 19)
    assert "20 levels" in refusal("(" * 20 + "a" + ")" * 20)[1]
    parse("((name=a) (name=b)) " * 21)  # not nested in each other
    longest = " " * 4095 + "a"
    assert A == parse(longest)
    with pytest.raises(Invalid, match="at most 4096 characters"):
        parse(" " + longest)


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", "a*"), ("extra.rack", "a"), ("extra.rack", "1"), ("retired", "1")],
)
@pytest.mark.parametrize("form", ["{} in ({})", "{}={}", "not {} in ({})"])
def test_values_of_a_list_that_are_conditions_of_their_own_count_as_comparisons(form, field, value):
    parse(form.format(field, ",".join([value] * 100)))
    text = form.format(field, ",".join([value] * 101))
    right_place, reason = refusal(text)
    assert "too many parts: at most 100 comparisons and words" == reason
    assert text.rindex(value) + 1 == right_place


def test_plain_texts_of_a_list_are_one_comparison():
    parse(f"name in ({','.join(['a'] * 1000)})")
    parse(f"name=a* name in ({','.join(['a'] * 1000)}, b*)")


def test_a_long_unknown_name_is_looked_up_by_its_start(monkeypatch):
    names = []

    def matches(word, *_others):
        names.append(word)
        return []

    monkeypatch.setattr(grammar, "get_close_matches", matches)
    refusal("z" * 4000 + "=a")
    assert ["z" * 100] == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("name=a", {"name"}), ("a", set()), ("not name=a", {"name"}), ("name=a owner=b", {"name", "owner"}),
        ("name=a or not (a owner=b)", {"name", "owner"}), ("extra.rack=a or retired", {"extra", "retired"}),
    ],
)  # fmt: skip
def test_the_fields_of_a_tree(text, names):
    assert names == fields_of(parse(text))


@pytest.mark.parametrize("text", ["4", "-4", "0.5", "9" * 15, "1.123456789"])
def test_numbers(text):
    assert grammar.is_number(text)


@pytest.mark.parametrize(
    "text", ["", "x", "4x", "4.", ".5", "--4", "1e3", "9" * 16, "1.1234567891", "٤"]
)
def test_texts_that_are_no_numbers(text):
    assert not grammar.is_number(text)
