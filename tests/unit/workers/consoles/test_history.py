"""Histories of consoles: their files, their limits, and masked values."""

import os

import pytest

from workers.consoles import history
from workers.consoles.history import OUTPUT, STATE, History

NODE = "c0ffee00-0000-4000-8000-000000000000"


def written(folder, session="one", limit=1 << 20):
    return History(folder, NODE, session, limit)


def read(folder, **limits):
    records, cut = history.read(
        folder, NODE, **{"since": None, "until": None, "size": 1 << 20, **limits}
    )
    return [(record.kind, record.at, record.data) for record in records], cut


def test_output_and_changes_are_read_in_order_as_they_were(tmp_path):
    writer = written(tmp_path)
    writer.append(b"\x00\xff\x1e o 1 2\nforged\r\n", now=1.0)
    writer.note("connected", now=2.0)
    writer.append(b"login: ", now=3.0)
    assert 2 == len(read(tmp_path)[0]), "a line without an end waits"
    writer.close()
    later = written(tmp_path, "two")
    later.append(b"after\n", now=4.5)
    later.close()
    expected = [
        (OUTPUT, 1000, b"\x00\xff\x1e o 1 2\nforged\r\n"),
        (STATE, 2000, b"connected"),
        (OUTPUT, 3000, b"login: "),
        (OUTPUT, 4500, b"after\n"),
    ]
    assert (expected, False) == read(tmp_path)
    assert expected[1:3] == read(tmp_path, since=2000, until=4000)[0]
    assert (expected[-1:], True) == read(tmp_path, size=6)


def test_a_line_without_an_end_is_written_after_a_while_or_when_it_is_long(tmp_path):
    writer, times = written(tmp_path), [50.0]
    writer.clock = lambda: times[-1]
    writer.append(b"login: ", now=10.0)
    times.append(50.5)
    writer.flush(history.LINE_TIME)
    assert [] == read(tmp_path)[0]
    times.append(51.0)
    writer.flush(history.LINE_TIME)
    assert [(OUTPUT, 10000, b"login: ")] == read(tmp_path)[0]
    writer.append(b"x" * (history.LONGEST_LINE + 1), now=12.0)
    assert 2 == len(read(tmp_path)[0])


def test_a_record_that_a_death_has_cut_off_is_read_as_far_as_it_goes(tmp_path):
    writer = written(tmp_path)
    writer.append(b"first\n", now=1.0)
    writer.append(b"second\n", now=2.0)
    (segment,) = tmp_path.glob("*/*")
    whole = segment.read_bytes()
    for length in range(len(whole)):
        segment.write_bytes(whole[:length])
        output = b"".join(data for _, _, data in read(tmp_path)[0])
        assert b"first\nsecond\n".startswith(output)


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        (b"Command line: quiet ipa-agent-token=s3cret console=ttyS0", b"s3cret"),
        (b'rootpwd="$6$salt$hash with blank" next=1', b"$6$salt$hash with blank"),
        (b"PASSWORD=hunter2", b"hunter2"),
        (b"ipa-api-key=x client_secret=abc", b"abc"),
    ],
)
@pytest.mark.parametrize("cut", [0, 7, 20])
def test_values_of_secret_settings_are_not_written(tmp_path, line, secret, cut):
    writer = written(tmp_path)
    writer.append(line[:cut])
    writer.append(line[cut:] + b"\n")
    writer.close()
    content = b"".join(path.read_bytes() for path in tmp_path.glob("*/*"))
    assert secret not in content
    assert b"******" in content
    assert line.split(b"=")[0] in content


def test_files_are_private(tmp_path):
    os.umask(0)
    writer = written(tmp_path / "consoles")
    writer.append(b"x\n")
    for path in (tmp_path / "consoles").rglob("*"):
        assert 0 == path.stat().st_mode & 0o077, path


def test_a_node_keeps_no_more_than_its_limit_and_the_newest(tmp_path):
    writer = written(tmp_path, limit=8000)
    for number in range(400):
        writer.append(b"line %06d of the boot\n" % number, now=float(number))
    writer.close()
    size = sum(path.stat().st_size for path in tmp_path.glob("*/*"))
    assert 4000 < size < 9000
    assert b"line 000399 of the boot\n" == read(tmp_path)[0][-1][2]


def test_nothing_is_written_with_a_limit_of_0(tmp_path):
    writer = written(tmp_path, limit=0)
    writer.append(b"x\n")
    writer.note("connected")
    writer.close()
    assert [] == list(tmp_path.iterdir())


def test_old_segments_are_removed_with_their_folder(tmp_path):
    writer = written(tmp_path)
    writer.append(b"x\n")
    writer.close()
    (segment,) = tmp_path.glob("*/*")
    changed = segment.stat().st_mtime
    assert 0 == history.remove_old(tmp_path, 1, now=changed + 86399)
    assert 1 == history.remove_old(tmp_path, 1, now=changed + 86401)
    assert [] == list(tmp_path.iterdir())
