#!/usr/bin/env python3
"""Tests of what clang_tidy.py takes for a change of a file."""

import contextlib
import os
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import clang_tidy  # pylint: disable=wrong-import-position

FILES = {
    "a.cc": '#include "a.h"\n',
    "b.cc": '#include "b.h"\n',
    # a.h and b.h are included by sources, deep.h by headers alone.
    "a.h": "int a;\n",
    "b.h": '#include "a.h"\n#include "deep.h"\n',
    "deep.h": "int deep;\n",
}


class FingerprintTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        stack.callback(os.chdir, os.getcwd())
        os.chdir(directory.name)
        for name, text in FILES.items():
            pathlib.Path(name).write_text(text, encoding="utf-8")

    def changed_by(self, name, indirect):
        """The sources that have to be checked again after a change of this file."""
        before = self._fingerprints(indirect)
        pathlib.Path(name).write_text(FILES[name] + "int more;\n", encoding="utf-8")
        after = self._fingerprints(indirect)
        pathlib.Path(name).write_text(FILES[name], encoding="utf-8")
        return [path for path, stamp in after.items() if stamp != before[path]]

    @staticmethod
    def _fingerprints(indirect):
        sources = clang_tidy.Sources()
        paths = [pathlib.Path("a.cc"), pathlib.Path("b.cc")]
        others = set() if indirect else sources.direct(paths)
        return {str(path): clang_tidy.fingerprint(sources, path, others, b"") for path in paths}

    def test_a_source_is_checked_when_it_changes(self):
        self.assertEqual(self.changed_by("a.cc", indirect=False), ["a.cc"])

    def test_a_header_is_checked_with_those_that_include_it(self):
        self.assertEqual(self.changed_by("a.h", indirect=False), ["a.cc"])

    def test_a_header_that_no_source_includes_is_checked_all_the_same(self):
        self.assertEqual(self.changed_by("deep.h", indirect=False), ["b.cc"])

    def test_everything_counts_that_is_included_if_it_is_to(self):
        self.assertEqual(self.changed_by("a.h", indirect=True), ["a.cc", "b.cc"])

    def test_the_version_is_the_same_on_other_machines(self):
        said = b"LLVM version 1\n  Host CPU: %s\n"
        self.assertEqual(clang_tidy.version_of(said % b"a"), clang_tidy.version_of(said % b"b"))
        self.assertIn(b"version 1", clang_tidy.version_of(said % b"a"))

    def test_what_is_recorded_is_known(self):
        path = pathlib.Path("known")
        self.assertEqual(clang_tidy.read_known(path), set())
        prints = self._fingerprints(indirect=False)
        clang_tidy.record(path, prints.values())
        known = clang_tidy.read_known(path)
        self.assertEqual(known, {one[:clang_tidy.SHORT] for one in prints.values()})
        pathlib.Path("a.cc").write_text(FILES["a.cc"] + "int changed;\n", encoding="utf-8")
        changed = {name for name, one in self._fingerprints(indirect=False).items() if one[:clang_tidy.SHORT] not in known}
        self.assertEqual(changed, {"a.cc"})


if __name__ == "__main__":
    unittest.main()
