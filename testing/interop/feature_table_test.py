#!/usr/bin/env python3
"""Tests of feature_table.py."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import feature_table  # pylint: disable=wrong-import-position
from feature_table import Cell, Table, TableError  # pylint: disable=wrong-import-position

TABLE = Table("peers", (("One", "peer_one"), ("Two", "peer_two")), (
    ("I/O", (Cell("peer_.*", ("reads", r"writes of (\d+)"), r"up to \1"),)),
    ("resets", (Cell("peer_one", ("resets",), otherwise="no, see below"),)),
))
GOOD = {"peer_one": {"reads": None, "writes of 7": None, "resets": None}, "peer_two": {"reads": None, "writes of 9": None}}
ROWS = ["| | One | Two |", "|---|---|---|", "| I/O | up to 7 | up to 9 |", "| resets | yes | – |"]


class FeatureTableTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.document = self.directory / "document.md"

    def reports(self, **suites):
        """Suites with the verdicts of their cases; None: passed."""
        for suite, cases in suites.items():
            root = xml.etree.ElementTree.Element("testsuites")
            element = xml.etree.ElementTree.SubElement(root, "testsuite", name=suite)
            for name, kind in cases.items():
                case = xml.etree.ElementTree.SubElement(element, "testcase", name=name)
                if kind is not None:
                    xml.etree.ElementTree.SubElement(case, kind)
            path = self.directory / suite / "test.xml"
            path.parent.mkdir(exist_ok=True)
            xml.etree.ElementTree.ElementTree(root).write(path)

    def lines(self, **suites):
        self.reports(**suites)
        return feature_table.table_lines(TABLE, feature_table.read_reports(self.directory))

    def run_main(self, *flags):
        arguments = ["feature_table.py", *flags, "--reports", str(self.directory), str(self.document)]
        output = io.StringIO()
        with (mock.patch.object(sys, "argv", arguments), mock.patch.object(feature_table, "TABLES", (TABLE,)),
              contextlib.redirect_stdout(output), contextlib.redirect_stderr(output)):
            return feature_table.main(), output.getvalue()

    def test_what_passed_is_said(self):
        self.assertEqual(self.lines(**GOOD), ROWS)

    def test_what_was_skipped_is_not_claimed(self):
        skipped = GOOD | {"peer_one": GOOD["peer_one"] | {"resets": "skipped"}}
        self.assertEqual(self.lines(**skipped)[3], "| resets | no, see below | – |")

    def test_what_failed_is_not_claimed(self):
        failed = GOOD | {"peer_two": GOOD["peer_two"] | {"reads": "failure"}}
        self.assertEqual(self.lines(**failed)[2], "| I/O | up to 7 | FAILED, PASSED |")

    def test_a_part_of_a_feature_is_no_feature(self):
        with self.assertRaisesRegex(TableError, "peer_two has no case 'reads'"):
            self.lines(**GOOD | {"peer_two": {"writes of 9": None}})

    def test_every_suite_and_every_feature_has_cases(self):
        with self.assertRaisesRegex(TableError, "no report of peer_two"):
            self.lines(peer_one=GOOD["peer_one"])
        with self.assertRaisesRegex(TableError, "no case is about this: I/O"):
            self.lines(peer_one={"resets": None}, peer_two={"other": None})

    def test_a_document_is_checked_and_written(self):
        self.reports(**GOOD)
        self.document.write_text("before\n<!-- table: peers -->\nold\n<!-- end -->\nafter\n", encoding="utf-8")
        status, output = self.run_main("--check")
        self.assertEqual(status, 1)
        self.assertIn("-old\n", output)
        self.assertIn(f"+{ROWS[2]}\n", output)
        self.assertEqual(self.run_main("--write")[0], 0)
        self.assertEqual(self.document.read_text(encoding="utf-8"),
                         "before\n<!-- table: peers -->\n" + "".join(f"{row}\n" for row in ROWS) + "<!-- end -->\nafter\n")
        self.assertEqual(self.run_main("--check"), (0, ""))

    def test_columns_without_a_report_are_named(self):
        self.document.write_text("<!-- table: peers -->\n" + "".join(f"{row}\n" for row in ROWS) + "<!-- end -->\n",
                                 encoding="utf-8")
        self.reports(peer_one=GOOD["peer_one"])
        self.assertIn("no report of peer_two", self.run_main("--check")[1])
        self.assertEqual(self.run_main("--check", "--partial"),
                         (0, "taken from the document, as there is no report: peer_two\n"))
        self.reports(peer_one=GOOD["peer_one"] | {"reads": "failure"})
        status, output = self.run_main("--check", "--partial")
        self.assertEqual(status, 1)
        self.assertIn("+| I/O | FAILED, PASSED | up to 9 |\n", output)

    def test_a_document_without_the_table_is_told(self):
        self.reports(**GOOD)
        self.document.write_text("nothing\n", encoding="utf-8")
        status, output = self.run_main("--check")
        self.assertEqual(status, 1)
        self.assertIn("not one place for the table peers", output)


if __name__ == "__main__":
    unittest.main()
