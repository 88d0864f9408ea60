#!/usr/bin/env python3
"""Tests of count_tests.py, and of the reports of interop/cases.py that it reads."""

import contextlib
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
        path = pathlib.Path(self._directory.name) / "events"
        path.write_text("\n".join(json.dumps(event) for event in events(self.report, status)), encoding="utf-8")
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


if __name__ == "__main__":
    unittest.main()
