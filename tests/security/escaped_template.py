"""The child of `drivers.boot.templates` with code of an attacker in place of a template."""

import os

from drivers.boot import template_child


def escaped(_template, _values):
    try:
        with open("/etc/hostname") as file:
            opened = file.read()
    except OSError as error:
        opened = error.strerror
    names = [name for name in os.environ if name.startswith("INGOT_")]
    return f"environment: {names}, opened: {opened}"


if __name__ == "__main__":
    template_child._load_modules()
    template_child._load_modules = lambda: None
    template_child._render = escaped
    template_child.main()
