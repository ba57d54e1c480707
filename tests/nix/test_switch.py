"""The rules of a switch, each as a sentence."""

import unittest

from driver.manifest import System, Unit
from driver.switch import Change, compare, parse, plan

BASE = "[Unit]\nDescription=a\nX-Reload-Triggers=/1\n\n[Service]\nExecStart=/a\n"


def changed(old: str, new: str) -> Change:
    return compare(parse(BASE), parse(BASE.replace(old, new)))


def planned(before: str, after: str | None) -> dict[str, list[str]]:
    new = System() if after is None else System(units={"a.service": Unit(after)})
    steps = plan(System(units={"a.service": Unit(before)}), new, {"a.service"})
    return {verb: units for verb, units in vars(steps).items() if units}


class Rules(unittest.TestCase):
    def test_a_unit_that_is_the_same_is_left_alone(self) -> None:
        self.assertEqual(changed("a", "a"), Change.NONE)
        self.assertEqual(planned(BASE, BASE), {})

    def test_another_description_or_target_means_nothing(self) -> None:
        self.assertEqual(changed("Description=a", "Description=b"), Change.NONE)
        self.assertEqual(changed("ExecStart=/a\n", "ExecStart=/a\n[Install]\nWantedBy=b\n"), Change.NONE)

    def test_other_reload_triggers_reload(self) -> None:
        self.assertEqual(changed("/1", "/2"), Change.RELOAD)
        self.assertEqual(planned(BASE, BASE.replace("/1", "/2")), {"reload": ["a.service"]})

    def test_reload_triggers_that_are_gone_mean_nothing(self) -> None:
        self.assertEqual(changed("X-Reload-Triggers=/1\n", ""), Change.NONE)

    def test_anything_else_restarts(self) -> None:
        self.assertEqual(changed("/a", "/b"), Change.RESTART)
        self.assertEqual(changed("[Service]", "X-Restart-Triggers=/1\n[Service]"), Change.RESTART)
        both = BASE.replace("/1", "/2").replace("/a", "/b")
        self.assertEqual(compare(parse(BASE), parse(both)), Change.RESTART)

    def test_a_changed_service_is_stopped_with_the_old_files_and_started_with_the_new(self) -> None:
        self.assertEqual(planned(BASE, BASE.replace("/a", "/b")), {"stop": ["a.service"], "start": ["a.service"]})

    def test_a_changed_service_may_ask_for_less(self) -> None:
        for word, verb in {
            "X-StopIfChanged=false": "restart",
            "X-ReloadIfChanged=true": "reload",
            "X-RestartIfChanged=false": "left",
        }.items():
            asking = BASE.replace("/a\n", f"/a\n{word}\n")
            self.assertEqual(planned(asking, asking.replace("/a", "/b")), {verb: ["a.service"]}, word)

    def test_a_service_that_is_gone_is_stopped(self) -> None:
        self.assertEqual(planned(BASE, None), {"stop": ["a.service"]})

    def test_what_does_not_run_is_nobodys_business(self) -> None:
        steps = plan(System(units={"a.service": Unit(BASE)}), System(), set())
        self.assertEqual(steps.words(), "no unit changes")


if __name__ == "__main__":
    unittest.main()
