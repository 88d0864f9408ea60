#!/usr/bin/env python3
"""Tests of count_tests.py and run_costs.py, and of the reports of interop/cases.py that it reads."""

import contextlib
import gzip
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "interop")]
import cases  # pylint: disable=wrong-import-position
import count_tests  # pylint: disable=wrong-import-position
import run_costs  # pylint: disable=wrong-import-position


def events(report, status):
    """What Bazel writes about one test target."""
    label = {"label": "//some:test"}
    output = {"name": "test.xml", "uri": f"file://{report}"}
    return [{"id": {"testResult": label}, "testResult": {"status": status, "testActionOutput": [output]}},
            {"id": {"testSummary": label}, "testSummary": {"overallStatus": status}}]


class CountTests(unittest.TestCase):
    def setUp(self):
        self._directory = tempfile.TemporaryDirectory()
        self.addCleanup(self._directory.cleanup)
        self.report = pathlib.Path(self._directory.name) / "test.xml"

    def collect(self, fill):
        """The exit status and the output of a test whose cases `fill` adds."""
        collected = cases.Cases("suite")
        before = os.environ.get("XML_OUTPUT_FILE")
        os.environ["XML_OUTPUT_FILE"] = str(self.report)
        output = io.StringIO()
        try:
            with contextlib.redirect_stdout(output):
                fill(collected)
                status = collected.finish()
        finally:
            del os.environ["XML_OUTPUT_FILE"]
            if before is not None:
                os.environ["XML_OUTPUT_FILE"] = before
        return status, output.getvalue()

    def count(self, status):
        """The lines that count_tests prints of the report."""
        return self.count_events(events(self.report, status))

    def count_events(self, written):
        path = pathlib.Path(self._directory.name) / "events"
        path.write_text("\n".join(json.dumps(event) for event in written), encoding="utf-8")
        output = io.StringIO()
        before = sys.argv
        sys.argv = ["count_tests.py", str(path)]
        try:
            with contextlib.redirect_stdout(output):
                count_tests.main()
        finally:
            sys.argv = before
        return output.getvalue().splitlines()

    def test_an_expected_failure_is_neither_passed_nor_skipped(self):
        def fill(collected):
            collected.passed("a")
            collected.skipped("b", "no tape")
            collected.failed_as_expected("c", "fail=1: its own fault")

        status, output = self.collect(fill)
        self.assertEqual(status, 0)
        self.assertIn("\n1 passed, 0 failed, 1 skipped, 1 failed as expected in ", output)
        self.assertEqual(self.count("PASSED"), [
            "FAILED AS EXPECTED: //some:test suite.c: fail=1: its own fault",
            "1 passed, 0 failed, 1 skipped",
        ])

    def test_expected_failures_alone_prove_nothing(self):
        status, _ = self.collect(lambda collected: collected.failed_as_expected("a", "its own fault"))
        self.assertEqual(status, 1)

    def test_a_failure_is_named(self):
        def fill(collected):
            collected.passed("a")
            collected.failed("b", "no answer")

        status, _ = self.collect(fill)
        self.assertEqual(status, 1)
        self.assertEqual(self.count("FAILED"), ["FAILED: //some:test suite.b", "1 passed, 1 failed, 0 skipped"])

    def test_a_target_that_left_no_report_counts_as_one(self):
        self.assertEqual(self.count("PASSED"), ["1 passed, 0 failed, 0 skipped"])
        self.assertEqual(self.count("TIMEOUT"), ["FAILED: //some:test (TIMEOUT)", "0 passed, 1 failed, 0 skipped"])

    def test_a_target_that_was_not_run_is_a_failure(self):
        meant = {"id": {"targetConfigured": {"label": "//late:test"}}, "configured": {"testSize": "SMALL"}}
        library = {"id": {"targetConfigured": {"label": "//some:library"}}, "configured": {"targetKind": "cc_library rule"}}
        stopped = {"id": {"targetCompleted": {"label": "//late:test"}}, "aborted": {"reason": "USER_INTERRUPTED"}}
        silent = {"id": {"testSummary": {"label": "//late:test"}}, "testSummary": {"overallStatus": "NO_STATUS"}}
        for more in [[], [stopped], [silent]]:
            self.assertEqual(self.count_events([meant, library, *more, *events(self.report, "PASSED")]), [
                "FAILED: //late:test (not run: the time was up, or something before it failed)",
                "1 passed, 1 failed, 0 skipped",
            ])

    def test_a_target_that_was_not_built_is_a_failure(self):
        broken = {"id": {"targetCompleted": {"label": "//some:test"}}, "completed": {}}
        self.assertEqual(self.count_events([broken]), [
            "FAILED: //some:test (FAILED_TO_BUILD)",
            "0 passed, 1 failed, 0 skipped",
        ])

    def test_costs_are_of_all_stages(self):
        directory = pathlib.Path(self._directory.name)
        result = {"status": "PASSED", "testAttemptDurationMillis": "2500"}
        for stage in ("asan", "tsan"):
            event = {"id": {"testResult": {"label": f"//{stage}:test"}}, "testResult": result}
            (directory / f"{stage}.events").write_text(json.dumps(event), encoding="utf-8")
        profile = {"traceEvents": [
            {"name": "thread_name", "args": {"name": "main"}},
            {"cat": "action processing", "name": "Compiling slow.cc", "dur": 9000000},
            {"cat": "action processing", "name": "Linking slow", "dur": 8000000},
        ]}
        (directory / "asan.profile").write_text(json.dumps(profile), encoding="utf-8")
        (directory / "tsan.profile").write_bytes(gzip.compress(json.dumps(profile).encode()))
        (directory / "vm.profile").write_text("{", encoding="utf-8")
        self.assertEqual(sorted(run_costs.tests(directory)), [(2.5, "asan", "//asan:test"), (2.5, "tsan", "//tsan:test")])
        self.assertEqual(sorted(run_costs.compilations(directory)), [(9.0, "asan", "slow.cc"), (9.0, "tsan", "slow.cc")])


if __name__ == "__main__":
    unittest.main()
