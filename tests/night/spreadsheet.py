"""The spreadsheet of the machines, as a purchase department hands it over: three of its rows are wrong."""

import csv
import io

HEADER = ("Name", "Rack", "BMC", "BMC user", "BMC password", "MAC", "Keep", "Bought")
#: Column -> its field, "": it is ignored.
FIELDS = {
    "Rack": "extra.rack", "BMC": "driver_info.redfish_address",
    "BMC user": "driver_info.redfish_username", "BMC password": "driver_info.redfish_password",
    "MAC": "ports", "Keep": "protected", "Bought": "",
}  # fmt: skip
RACK = 40  # machines


def rows(machines):
    return [
        [
            machine["name"], f"r{number // RACK + 1}", machine["redfish_address"], "admin", "admin",
            machine["mac"].upper().replace(":", "-"), "no", "01.02.2026",
        ]
        for number, machine in enumerate(machines)
    ]  # fmt: skip


def spoiled(right):
    """Return the rows with three errors, and for each its line and the words that an error needs."""
    wrong = [[*row] for row in right]
    errors = []
    for number, column, change in (
        (2, "MAC", lambda cell: cell[:-1] + "X"),
        (len(right) // 2, "Keep", lambda _: "perhaps"),
        (len(right) - 1, "Name", lambda cell: cell.replace("-", " ")),
    ):
        cells = wrong[number]
        place = HEADER.index(column)
        cells[place] = change(cells[place])
        errors.append((f"line {number + 2}", column, cells[place]))
    return wrong, errors


def written(path, lines):
    text = io.StringIO()
    csv.writer(text, delimiter=";").writerows([HEADER, *lines])
    path.write_text(text.getvalue(), encoding="utf-8-sig")
