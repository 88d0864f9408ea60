#!/usr/bin/env python3
"""abi.py: which changes of the headers break programs."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).absolute().parent
ABI = HERE / "abi.py"

HEADER = """
#define SKIFF_API __attribute__((visibility("default")))
#define SKIFF_VERSION "1.0"
/// A flag.
#define SKIFF_A_FLAG (1u << 0)
typedef struct skiff_thing skiff_thing;
typedef enum skiff_kind { SKIFF_KIND_ONE = 1, SKIFF_KIND_TWO = 2 } skiff_kind;
typedef struct skiff_options {
  unsigned long struct_size;
  int first;  ///< First; with a semicolon.
  long second;
} skiff_options;
SKIFF_API int skiff_make(const skiff_options* options,
                         skiff_thing** thing);
SKIFF_API void skiff_end(skiff_thing* thing);
"""


class AbiTest(unittest.TestCase):
    """Headers that are released, and then changed."""

    def setUp(self):
        self.work = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.work)
        (self.work / "skiff").mkdir()
        self.write(HEADER)
        self.assertEqual((0, ""), self.run_abi("--release"))

    def write(self, text):
        (self.work / "skiff/skiff.h").write_text(text, encoding="utf-8")

    def run_abi(self, *arguments):
        result = subprocess.run([sys.executable, ABI, "--headers", self.work / "skiff", "--dump", self.work / "dump",
                                 *arguments], check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return result.returncode, result.stdout

    def changed(self, old, new):
        self.assertIn(old, HEADER)
        self.write(HEADER.replace(old, new))
        return self.run_abi()

    def test_the_same_is_the_same(self):
        self.assertEqual((0, ""), self.run_abi())

    def test_what_is_new_breaks_nothing(self):
        for old, new in (("SKIFF_API void", "SKIFF_API int skiff_more(skiff_thing* thing);\nSKIFF_API void"),
                         ("  long second;\n", "  long second;\n  int third;\n"),
                         ("SKIFF_KIND_TWO = 2 }", "SKIFF_KIND_TWO = 2, SKIFF_KIND_THREE = 3 }"),
                         ("typedef struct skiff_thing", "#define SKIFF_B_FLAG (1u << 1)\ntypedef struct skiff_thing")):
            with self.subTest(new=new):
                self.assertEqual((0, ""), self.changed(old, new))

    def test_what_breaks_programs_is_named(self):
        for old, new, words in (("SKIFF_API void skiff_end(skiff_thing* thing);\n", "", "skiff_end"),
                                ("  long second;", "  int second;", "second"),
                                ("  long second;\n", "", "second"),
                                ("  int first;", "  int before;\n  int first;", "before"),
                                ("skiff_end(skiff_thing* thing)", "skiff_end(skiff_thing* thing, int how)", "skiff_end"),
                                ("SKIFF_KIND_TWO = 2", "SKIFF_KIND_TWO = 3", "SKIFF_KIND_TWO"),
                                ("(1u << 0)", "(1u << 1)", "SKIFF_A_FLAG")):
            with self.subTest(new=new):
                status, output = self.changed(old, new)
                self.assertEqual(1, status)
                self.assertIn(words, output)
                self.assertIn("abi.py --release", output)

    def test_mistakes_are_named(self):
        (self.work / "dump").unlink()
        self.assertIn("abi.py --release makes it", self.run_abi()[1])
        self.write("int nothing;\n")
        self.assertIn("are these the headers?", self.run_abi("--release")[1])


if __name__ == "__main__":
    unittest.main()
