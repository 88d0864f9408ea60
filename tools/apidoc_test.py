#!/usr/bin/env python3
"""Tests of apidoc."""

import importlib.machinery
import importlib.util
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("apidoc", str(pathlib.Path(__file__).with_name("apidoc")))
apidoc = importlib.util.module_from_spec(importlib.util.spec_from_loader("apidoc", loader))
loader.exec_module(apidoc)

HEADER = """#ifndef A_H_
#define A_H_

// About the file.

namespace skiff {

// A door; see `width`.
class Door {
 public:
  // Kinds of it.
  enum class Kind : uint8_t {
    kOld,  // Of wood.
    // Of glass.
    kNew,
  };
  virtual ~Door() = default;  // When closed.
  // Opens <it>.
  void Open(int width) {
    // How.
    width_ = width;  // Now.
  }

  // --- The owner's, while pending.
  Door* next = nullptr;  // Of the owner's.

 private:
  int width_ = 0;
};

}  // namespace skiff

#endif  // A_H_
"""
PAGE = "# Page\n\n| `gone.h` | in another table |\n|---|---|\n\n## Public headers\n\n### Doors\n\n| header | what |\n|---|---|\n"


class MarkTest(unittest.TestCase):
    def setUp(self):
        self.text, self.comments = apidoc.mark("scsi/a.h", "doors", HEADER)
        self.lines = dict(zip(HEADER.splitlines(), self.text.splitlines()))

    def test_lines_keep_their_numbers(self):
        self.assertEqual(self.lines["  void Open(int width) {"], "  void Open(int width) {")
        self.assertEqual(self.lines["#endif  // A_H_"], "#endif  // A_H_")

    def test_comments_of_declarations_are_marked(self):
        self.assertEqual(self.lines["// A door; see `width`."], "/// A door; see `width`.")
        self.assertEqual(self.lines["    kOld,  // Of wood."], "    kOld,  ///< Of wood.")
        self.assertEqual(self.lines["    // Of glass."], "    /// Of glass.")
        self.assertEqual(self.lines["  // Opens <it>."], r"  /// Opens \<it\>.")
        self.assertIn((8, " A door; see `width`."), self.comments)

    def test_comments_of_code_are_not(self):
        for line in ("    // How.", "    width_ = width;  // Now.", "}  // namespace skiff"):
            self.assertEqual(self.lines[line], line)

    def test_scratch_members_are_hidden(self):
        self.assertEqual(self.lines["  // --- The owner's, while pending."], "  /// @cond INTERNAL")
        self.assertEqual(self.lines["  Door* next = nullptr;  // Of the owner's."], "  Door* next = nullptr;  // Of the owner's.")
        self.assertEqual(self.text.count("@endcond"), 1)

    def test_what_is_about_the_file_goes_there(self):
        self.assertIn("@file scsi/a.h\n@brief doors\n\n About the file.\n", self.text)


class CheckTest(unittest.TestCase):
    def make(self, header, rows="| `scsi/a.h` | doors |\n"):
        with tempfile.TemporaryDirectory() as work:
            root = pathlib.Path(work, "tree")
            for name, text in (("scsi/a.h", header), *((page, PAGE + rows) for page in apidoc.PAGES)):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
            output = pathlib.Path(work, "output")
            output.mkdir()
            apidoc.make(root, output, man=True)
            return sorted(str(path.relative_to(output)) for path in output.rglob("*"))

    def fails(self, message, header, **keywords):
        with self.assertRaisesRegex(apidoc.ApidocError, message):
            self.make(header, **keywords)

    def test_makes_pages(self):
        made = self.make(HEADER)
        self.assertIn("html/index.html", made)
        self.assertIn("man/man3/skiff_Door.3", made)

    def test_a_function_needs_a_comment(self):
        self.fails(r"scsi/a\.h:19: .*Open.* is not documented", HEADER.replace("  // Opens <it>.\n", "\n"))

    def test_a_type_needs_a_comment(self):
        self.fails(r"skiff::Door is not documented", HEADER.replace("// A door; see `width`.\n", "\n"))

    def test_a_field_speaks_by_its_name(self):
        self.make(HEADER.replace("  // --- The owner's, while pending.\n", ""))

    def test_names_have_to_exist(self):
        self.fails(r"scsi/a\.h:8: there is no height", HEADER.replace("`width`", "`height`"))
        self.fails(r"scsi/a\.h:8: there is no Shut", HEADER.replace("see `width`", "see Door::Shut"))
        self.fails(r"scsi/a\.h:8: there is no Shut", HEADER.replace("see `width`", "see Shut()"))
        self.fails(r"scsi/a\.h:8: there is no b\.h", HEADER.replace("see `width`", "see b.h"))

    def test_headers_have_to_exist(self):
        self.fails("has scsi/b.h, which is not there", HEADER, rows="| `scsi/b.h` | windows |\n")
        self.fails("no header in the tables", HEADER, rows="")


if __name__ == "__main__":
    unittest.main()
