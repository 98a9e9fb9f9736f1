"""Maintenance windows: when they open and close, also where clocks are changed."""

from datetime import datetime, timedelta

import pytest

from app.rollouts import windows
from app.rollouts.windows import Window, ever_opens, waiting

NIGHT = Window("0 22 * * MON-FRI", "Europe/Berlin", 360)


def opening(time, *choices, **strategy):
    """Return None if nodes may be started at a time, else the time of the next opening."""
    documents = [
        {"cron": window.cron, "zone": window.zone, "minutes": window.minutes} for window in choices
    ]
    wait = waiting({"windows": documents, **strategy}, datetime.fromisoformat(time))
    return wait and wait.until.isoformat(" ", "minutes")


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2026-01-05 20:59:59.999999", "2026-01-05 21:00"), ("2026-01-05 21:00", None),
        ("2026-01-06 02:59:59.999999", None), ("2026-01-06 03:00", "2026-01-06 21:00"),
        ("2026-01-10 02:59", None),  # that of Friday goes on
        ("2026-01-10 03:00", "2026-01-12 21:00"), ("2026-01-11 23:00", "2026-01-12 21:00"),
        ("2026-07-06 19:59", "2026-07-06 20:00"), ("2026-07-06 20:00", None),
    ],
)  # fmt: skip
def test_a_window_opens_at_the_times_of_its_zone_and_closes_after_its_minutes(time, expected):
    assert expected == opening(time, NIGHT)


#: Window, and its begins and ends in UTC around a change of the clocks.
CHANGES = [
    # 02:30 is skipped: the end of the gap is in its place
    (Window("30 2 * * *", "Europe/Berlin", 60), "2026-03-29", ["01:00 02:00"]),
    (Window("0,30 2 * * *", "Europe/Berlin", 20), "2026-03-29", ["01:00 01:20"]),
    # of two times 02:30 the first one counts, and its duration is elapsed time
    (Window("30 2 * * *", "Europe/Berlin", 60), "2026-10-25", ["00:30 01:30"]),
    (Window("30 1 * * *", "Europe/Berlin", 150), "2026-10-25", ["00:00 02:00"]),
    (Window("30 1 * * *", "America/New_York", 45), "2026-11-01", ["05:30 06:15"]),
    # half an hour, and at midnight
    (Window("45 1 * * *", "Australia/Lord_Howe", 30), "2026-04-04", ["14:45 15:15"]),
    (Window("0 0 * * *", "Africa/Cairo", 60), "2026-04-23", ["22:00 23:00"]),
    # as often as cron runs: in both hours, and in none
    (Window("*/30 2 * * *", "Europe/Berlin", 10), "2026-10-25", ["00:00 00:10", "00:30 00:40", "01:00 01:10", "01:30 01:40"]),
    (Window("*/30 2 * * *", "Europe/Berlin", 10), "2026-03-29", []),
]  # fmt: skip


@pytest.mark.parametrize(("window", "day", "expected"), CHANGES)
def test_a_window_at_a_change_of_the_clocks(window, day, expected):
    begin = datetime.fromisoformat(day)
    minutes = [begin + timedelta(minutes=minute) for minute in range(1440)]
    is_open = [opening(minute.isoformat(), window) is None for minute in minutes]
    bounds = [
        index for index in range(1441)
        if [False, *is_open, False][index] != [False, *is_open, False][index + 1]
    ]  # fmt: skip
    texts = [f"{index // 60:02}:{index % 60:02}" for index in bounds]
    assert expected == [
        f"{start} {end}" for start, end in zip(texts[::2], texts[1::2], strict=True)
    ]


@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25", "2026-11-01", "2026-04-05"])
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize("cron", ["30 2 * * *", "30 1 * * *", "*/20 1-2 * * *", "0 2 * * SUN"])
def test_an_opening_is_never_in_the_past_and_is_open_when_it_comes(day, zone, cron):
    window = Window(cron, zone, 25)
    for minute in range(-1440, 1440, 10):
        time = datetime.fromisoformat(day) + timedelta(minutes=minute)
        wait = waiting({"windows": [vars_of(window)]}, time)
        if wait is not None:
            assert wait.until > time
            assert waiting({"windows": [vars_of(window)]}, wait.until) is None


def vars_of(window):
    return {"cron": window.cron, "zone": window.zone, "minutes": window.minutes}


def test_the_first_of_several_windows_counts_after_the_earliest_time():
    noon = Window("0 12 * * *", "UTC", 60)
    assert "2026-01-06 12:00" == opening("2026-01-06 04:00", NIGHT, noon)
    assert opening("2026-01-06 12:30", NIGHT, noon) is None
    strategy = {"not_before": "2026-01-06T12:30:00"}
    assert "2026-01-06 12:30" == opening("2026-01-06 04:00", NIGHT, noon, **strategy)
    assert "2026-01-06 12:30" == opening("2026-01-06 12:05", NIGHT, noon, **strategy)
    assert "2026-01-07 12:00" == opening("2026-01-06 04:00", noon, not_before="2026-01-06T13:00:00")
    assert "2026-01-08 00:00" == opening("2026-01-06 04:00", not_before="2026-01-08T00:00:00")
    assert opening("2026-01-08 00:00", not_before="2026-01-08T00:00:00") is None
    assert waiting({}, datetime(2026, 1, 1)) is None, "rollouts of earlier releases have neither"


@pytest.mark.parametrize(
    "window",
    [
        {"cron": "0 0 */20 * 1L", "zone": "UTC", "minutes": 5},  # no such day for fifty years
        {"cron": "0 22 * * *", "zone": "Europe/Nowhere", "minutes": 5},
        {"cron": "0 22 * * * *?", "zone": "UTC", "minutes": 5},
    ],
)
def test_a_window_that_this_host_cannot_tell_opens_no_more(window):
    wait = waiting({"windows": [window]}, datetime(2026, 1, 1))
    assert (False, None) == (wait is None, wait.until)
    both = [window, vars_of(NIGHT)]
    noon = datetime(2026, 1, 1, 12)
    assert datetime(2026, 1, 1, 21) == waiting({"windows": both}, noon).until


@pytest.mark.parametrize("cron", ["0 0 29 2 *", "0 0 29 2 MON#5", "0 0 L 2 *", "* * * * *"])
def test_rare_days_are_days(cron):
    assert ever_opens(Window(cron, "UTC", 1))


def test_a_window_is_computed_once_a_minute(monkeypatch):
    windows._opening.cache_clear()
    for second in range(0, 60, 5):
        opening(f"2026-01-05 20:30:{second:02}", NIGHT)
    assert 1 == windows._opening.cache_info().misses
