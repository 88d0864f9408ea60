#!/usr/bin/env python3
"""Installs Skiff into an empty prefix, and is an author of a transport who has nothing else.

Usage: author_test.py BUILT [-- TEST...]     BUILT is a folder as bazel-bin is, with what tools/install installs
"""

import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
from installed_test import ROOT, run  # pylint: disable=wrong-import-position

GUIDE = ROOT / "docs/transport-author-guide.md"
COMPILERS = ("c++", "clang++-14")
STRICT = ("-std=c++20", "-Wall", "-Wextra", "-Werror")
INCLUDE = re.compile(r'^#include ["<]((?:absl|bench|docs|protocol|scsi|skiff|testing|tools|transport)/[^">]+)[">]', re.MULTILINE)
HEADER = re.compile(r"`([\w/]+/\w+\.h)`")

built = None


class AuthorTest(unittest.TestCase):
    """One installation, and a copy of the skeleton for each test."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = pathlib.Path(tempfile.mkdtemp(prefix="skiff-author-"))
        cls.prefix = cls.temporary / "prefix"
        cls.author = cls.prefix / "include/skiff/author"
        run(ROOT / "tools/install", "--prefix", cls.prefix, "--use", built, DESTDIR="")
        cls.environment = {"PKG_CONFIG_PATH": str(cls.prefix / "lib/pkgconfig"), "LD_LIBRARY_PATH": str(cls.prefix / "lib"),
                           "PATH": f"{cls.prefix}/bin:{os.environ['PATH']}"}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.temporary)

    def setUp(self):
        self.work = self.temporary / self.id().rpartition(".")[2]
        shutil.copytree(self.prefix / "share/doc/skiff-transport-dev/examples", self.work)

    def here(self, *command, check=True):
        return run(*command, cwd=self.work, check=check, **self.environment)

    def headers(self):
        return {str(path.relative_to(self.author)) for path in self.author.rglob("*.h")}

    def test_each_header_compiles_alone(self):
        flags = self.here("pkg-config", "--cflags", "skiff-transport").split()
        source = self.work / "header.cc"
        for header in sorted(self.headers()):
            source.write_text(f'#include "{header}"\n#include "{header}"\n', encoding="utf-8")
            for compiler in COMPILERS:
                with self.subTest(header=header, compiler=compiler):
                    self.here(compiler, *STRICT, "-fsyntax-only", *flags, source)

    def test_headers_include_what_is_installed(self):
        for header in sorted(self.headers()):
            for included in INCLUDE.findall((self.author / header).read_text(encoding="utf-8")):
                places = (self.author / included, self.prefix / "include" / included)
                with self.subTest(header=header, included=included):
                    self.assertTrue(included.startswith("absl/") or any(place.is_file() for place in places))

    def test_the_guide_has_these_headers(self):
        section = GUIDE.read_text(encoding="utf-8").partition("\n## Public headers\n")[2]
        self.assertEqual(set(HEADER.findall(section)), self.headers())

    def test_the_commands_of_the_guide(self):
        print(run(ROOT / "testing/docs/run_doc.py", GUIDE, prefix=str(self.prefix), **self.environment))

    def test_cmake_finds_the_parts(self):
        self.here("cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
        self.here("cmake", "--build", "build", "--parallel", "2")
        self.assertIn(" 0 failed", self.here("build/inproc_conformance"))
        self.assertIn("inproc_disk: done", self.here("build/inproc_disk"))
        kept = self.work / "run.json"
        table = self.here("skiff-bench", "run", "--program", "build/inproc_bench", "--repetitions=2", "--min-time=0.001",
                          "--filter=codec/Encode/R2t|inproc.*/SendRoundTrip/events/size:64/", "--json", kept)
        self.assertIn("codec/Encode/R2t", table)
        self.assertIn("inproc://bench:0/SendRoundTrip/events/size:64", table)
        self.assertIn("within the spread", self.here("skiff-bench", "compare", kept, kept))
        self.assertIn("</svg>", self.here("skiff-bench", "chart", kept))

    def test_cmake_names_a_part_that_is_not_there(self):
        (self.work / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.16)\nproject(host LANGUAGES C CXX)\n"
                                                  "find_package(Skiff 1.0 REQUIRED COMPONENTS pigeon)\n", encoding="utf-8")
        output = self.here("cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={self.prefix}", check=False)
        self.assertIn("Skiff has no component pigeon here", " ".join(output.split()))

    def test_the_suite_notices_what_is_wrong(self):
        source = self.work / "inproc_transport.cc"
        right = source.read_text(encoding="utf-8")
        wrong = right.replace('return "inproc";', 'return "pigeon";')
        self.assertNotEqual(right, wrong)
        source.write_text(wrong, encoding="utf-8")
        self.here("make", "inproc_conformance", "CXXFLAGS=-O0 -std=c++20")
        output = self.here("./inproc_conformance", check=False)
        self.assertRegex(output, r"\n\d+ passed, [1-9]\d* failed")
        self.assertIn("pigeon", output)

    def test_a_disk_over_it_with_either_library(self):
        sources = ("inproc_disk.cc", "inproc_stream.cc", "inproc_transport.cc")
        for package, flags in (("skiff", ("-O0", "-fsanitize=address,undefined")), ("skiff-static", ("-O0",))):
            with self.subTest(package=package):
                libraries = self.here("pkg-config", "--cflags", "--libs", "skiff-transport", package).split()
                self.here("c++", *STRICT, *flags, "-o", package, *sources, *libraries)
                self.assertEqual("inproc_disk: done\n", self.here(f"./{package}"))


def main():
    global built  # pylint: disable=global-statement
    arguments = sys.argv[1:]
    built = str(pathlib.Path(arguments[0]).parents[2])
    os.environ.pop("XML_OUTPUT_FILE", None)  # GoogleTest would write there, too.
    unittest.main(argv=[sys.argv[0], *arguments[2:]], verbosity=2)


if __name__ == "__main__":
    main()
