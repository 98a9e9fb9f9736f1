"""The environment of the demo."""

from workers.demo import stage


def test_child_processes_run_where_the_packages_are():
    assert stage.__file__ == str(stage.ROOT / "workers" / "demo" / "stage.py")
