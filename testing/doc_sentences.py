#!/usr/bin/env python3
"""Long sentences of the pages for people.

Usage: doc_sentences.py [--check] [FILE.md...]

Prints each sentence of more than 32 words, and the share of these in each page. Code, tables and headings do not count.
Code within a sentence is one word. Without files, it reads README.md and the pages of docs/.

--check prints the pages in which more than 3 % of the sentences are long, and fails if there are any.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
MAX_WORDS = 32
MAX_SHARE = 0.03
FENCE = re.compile(r"^\s*(```|~~~)")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+")
CODE = re.compile(r"(`+).+?\1")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
# A full stop ends a sentence where a space follows that no abbreviation is before. So does the end of emphasis or of
# parentheses behind it.
END = re.compile(r"(?<=[.!?])[*_)\"”]*\s+(?=\S)")
ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|no)\.)$", re.IGNORECASE)


def without_comments(text):
    """The text with its lines kept, so that their numbers stay."""
    return COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)


def paragraphs(text):
    """Each paragraph, and each item of a list, with the number of its first line."""
    lines, start, fence = [], 0, None
    blank_before, in_list = True, False
    for number, line in enumerate(without_comments(text).splitlines() + [""], 1):
        mark = FENCE.match(line)
        if fence is not None:
            if mark and mark[1] == fence:
                fence = None
            continue
        item = ITEM.match(line)
        code = blank_before and not in_list and not item and line.startswith("    ")
        apart = not line.strip() or line.lstrip().startswith(("|", "#")) or mark or code
        if lines and (apart or item):
            yield start, " ".join(lines)
            lines = []
        if mark:
            fence = mark[1]
        if item:
            in_list = True
        elif line.strip() and not line.startswith(" "):
            in_list = in_list and not blank_before
        # What is indented without a blank line before goes on with what is above; code goes on with code.
        blank_before = not line.strip() or code
        if apart:
            continue
        if not lines:
            start = number
        lines.append(ITEM.sub("", line).strip())


def sentences(text):
    """Each sentence, with the number of the line that its paragraph begins in."""
    for number, paragraph in paragraphs(text):
        plain = LINK.sub(r"\1", CODE.sub("CODE", paragraph))
        begin = 0
        for end in END.finditer(plain):
            if ABBREVIATION.search(plain[begin:end.start()]):
                continue
            yield number, plain[begin:end.start()].strip()
            begin = end.end()
        if plain[begin:].strip():
            yield number, plain[begin:].strip()


def words(sentence):
    return sum(any(c.isalnum() for c in word) for word in sentence.split())


def long_sentences(text):
    """How many sentences there are, and those that are long."""
    count, found = 0, []
    for number, sentence in sentences(text):
        count += 1
        if words(sentence) > MAX_WORDS:
            found.append((number, sentence))
    return count, found


def report(name, text, check):
    """Prints what is to be said of a page. True if it has too many long sentences."""
    count, found = long_sentences(text)
    share = len(found) / count if count else 0.0
    bad = share > MAX_SHARE
    if bad or not check:
        for number, sentence in found:
            print(f"{name}:{number}: {words(sentence)} words: {sentence}")
        print(f"{name}: {len(found)} of {count} sentences have more than {MAX_WORDS} words ({share:.1%})")
    return bad


def main():
    arguments = sys.argv[1:]
    check = arguments[:1] == ["--check"]
    files = [pathlib.Path(name) for name in arguments[check:]]
    files = files or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    bad = [report(path, path.read_text(encoding="utf-8"), check) for path in files]
    return 1 if check and any(bad) else 0


if __name__ == "__main__":
    sys.exit(main())
