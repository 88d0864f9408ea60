#!/usr/bin/env python3
"""Tests of doc_sentences.py."""

import contextlib
import io
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import doc_sentences  # pylint: disable=wrong-import-position

LONG = " ".join(["word"] * 33) + "."


class DocSentencesTest(unittest.TestCase):
    def read(self, text):
        return [sentence for _, sentence in doc_sentences.sentences(text)]

    def test_sentences_end_at_full_stops(self):
        self.assertEqual(self.read("One is short.\nAnother, of RFC 7143 section 4.2.2.1, goes\non (here). A third: `a. b`!\n"),
                         ["One is short.", "Another, of RFC 7143 section 4.2.2.1, goes on (here).", "A third: CODE!"])

    def test_emphasis_does_not_join_them(self):
        self.assertEqual(len(self.read("**One thing.** And another.")), 2)

    def test_abbreviations_end_nothing(self):
        self.assertEqual(len(self.read("One thing, e.g. this one.")), 1)

    def test_items_are_apart(self):
        self.assertEqual(self.read("These:\n\n- one\n  and more\n- two\n1. three\n\nThe end."),
                         ["These:", "one and more", "two", "three", "The end."])

    def test_a_paragraph_of_an_item_is_none_of_code(self):
        self.assertEqual(self.read("1. One.\n\n    More of it.\n"), ["One.", "More of it."])

    def test_code_tables_and_headings_do_not_count(self):
        self.assertEqual(self.read("# Head\n\n| a | b |\n|---|---|\n\n```sh run\ncommand. More.\n```\n\n    indented. Code.\n\n"
                                   "<!-- a\ncomment. -->\nText.\n"), ["Text."])

    def test_a_link_is_its_text(self):
        self.assertEqual(self.read("See [the other page](other.md#there)."), ["See the other page."])

    def test_long_ones_are_found_with_their_line(self):
        self.assertEqual(doc_sentences.long_sentences(f"Short.\n\n{LONG} Short.\n"), (3, [(3, LONG)]))
        self.assertEqual(doc_sentences.words(LONG), 33)
        self.assertEqual(doc_sentences.long_sentences(LONG.replace("word ", "", 1))[1], [])

    def test_the_share_decides(self):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            self.assertTrue(doc_sentences.report("page", LONG + " Short." * 30, check=True))
            self.assertFalse(doc_sentences.report("other", LONG + " Short." * 40, check=True))
        self.assertIn("page:1: 33 words", printed.getvalue())
        self.assertNotIn("other", printed.getvalue())


if __name__ == "__main__":
    unittest.main()
