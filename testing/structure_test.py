#!/usr/bin/env python3
"""Tests of structure.py."""

import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import structure  # pylint: disable=wrong-import-position


class StructureTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        self.add("transport/api.h")
        self.add("protocol/codec/pdu.h", "transport/api.h")
        self.add("scsi/disk.h", "protocol/codec/pdu.h", "transport/api.h")

    def add(self, name, *includes):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f'#include "{included}"\n' for included in includes), encoding="utf-8")

    def read(self):
        graph = structure.read_structure(self.root)
        structure.check_order(graph)
        return graph

    def test_an_arrow_is_an_include(self):
        self.assertEqual(self.read(), {"transport": set(), "protocol/codec": {"transport"},
                                       "scsi": {"protocol/codec", "transport"}})

    def test_the_picture_leaves_out_what_follows(self):
        drawn = structure.picture(self.read())
        self.assertIn("  scsi --> protocol_codec\n", drawn)
        self.assertIn("  protocol_codec --> transport\n", drawn)
        self.assertNotIn("  scsi --> transport\n", drawn)

    def test_a_circle_is_refused(self):
        self.add("transport/deep.h", "scsi/disk.h")
        with self.assertRaisesRegex(structure.StructureError, "folders include each other: .*transport"):
            self.read()

    def test_a_circle_of_files_is_refused(self):
        self.add("scsi/medium.h", "scsi/disk.h")
        structure.check_files(self.root, ("scsi",))
        # By way of its source, which is one file with its header.
        self.add("scsi/disk.cc", "scsi/disk.h", "scsi/track.h")
        self.add("scsi/track.h", "scsi/medium.h")
        with self.assertRaisesRegex(structure.StructureError, "3 files include each other, in 1 circles:\n"
                                    "  scsi: disk, medium, track; one way round: .*disk"):
            structure.check_files(self.root, ("scsi",))
        structure.check_files(self.root, ("transport",))

    def test_sources_apart_from_their_header_are_files_of_their_own(self):
        self.add("scsi/medium.h", "scsi/disk.h")
        self.add("scsi/disk_of_media.cc", "scsi/disk.h", "scsi/medium.h")
        structure.check_files(self.root, ("scsi",))

    def test_tests_beside_the_sources_are_no_part(self):
        self.add("transport/api_test.cc", "scsi/disk.h", "testing/tool.h")
        self.assertEqual(self.read()["transport"], set())

    def test_what_is_for_tests_stays_out(self):
        self.add("scsi/disk.cc", "testing/tool.h")
        with self.assertRaisesRegex(structure.StructureError, "scsi/disk.cc includes testing/tool.h"):
            self.read()

    def check_table(self, *rows):
        table = "".join(f"| {row} |\n" for row in ("folder | what | includers", "---|---|---", *rows))
        structure.check_table(self.root, self.read(), f"<!-- table: folders -->\n{table}<!-- end -->\n")

    def test_a_table_with_all_folders_is_right(self):
        self.check_table("`transport` | bytes | all", "`protocol/codec` | PDUs | `scsi`", "`scsi` | disks | nothing")

    def test_a_folder_that_the_table_lacks_is_told(self):
        with self.assertRaisesRegex(structure.StructureError, "lacks scsi"):
            self.check_table("`transport` | bytes | all", "`protocol/codec` | PDUs | `scsi`")

    def test_a_package_of_tests_needs_a_row(self):
        self.add("testing/sim/BUILD.bazel")
        with self.assertRaisesRegex(structure.StructureError, "lacks testing/sim"):
            self.check_table("`transport`, `scsi` | things | all", "`protocol/codec` | PDUs | `scsi`")

    def test_a_folder_that_is_gone_is_told(self):
        with self.assertRaisesRegex(structure.StructureError, "protocol/old, which is no folder"):
            self.check_table("`transport`, `scsi`, `protocol/old` | things | all", "`protocol/codec` | PDUs | `scsi`")

    def test_a_row_without_words_is_refused(self):
        with self.assertRaisesRegex(structure.StructureError, "not folders, what is in them"):
            self.check_table("`transport`, `scsi` |  | all", "`protocol/codec` | PDUs | `scsi`")

    def test_an_include_that_the_table_does_not_allow_is_refused(self):
        with self.assertRaisesRegex(structure.StructureError, "scsi includes protocol/codec"):
            self.check_table("`transport`, `scsi` | things | all", "`protocol/codec` | PDUs | `protocol`")

    def test_a_name_stands_for_the_folders_below(self):
        self.check_table("`transport` | bytes | `protocol`, `scsi`", "`protocol/codec` | PDUs | `scsi`",
                         "`scsi` | disks | nothing")


if __name__ == "__main__":
    unittest.main()
