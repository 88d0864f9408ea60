"""Makes the manual pages: section 3 from the comments of the public headers, by doxygen; the others from pages of docs/,
by lowdown.
"""

import pathlib
import re
import subprocess
import tempfile
import typing



class Part(typing.NamedTuple):
    """Sections of a document that have a page of their own, in which they are one level up.

    The document's page refers to it, below the heading `reference`, where they are left out.
    """
    document: str
    title: str  # What the page is.
    description: str  # The heading of the section that describes it, which both pages have.
    first: str  # The headings from this one
    end: str  # up to this one are in this page alone.
    reference: str


# Name and section of a page, and what it is made of.
PAGES = {
    "skiff.1": "skiff-cli.md",
    "skiffd.8": "skiffd.md",
    "skiffd.conf.5": Part("skiffd.md", "The configuration of skiffd", "### Keep the settings in a file",
                          "### Sizes and durations", "### Exit codes", "### Configuration"),
    "skiffctl.8": "skiffctl.md",
    "skiff.7": "installing.md",
    "skiff-transports.7": "transports.md",
    "skiff-iser.7": "iser.md",
    "skiff-metrics.7": "metrics.md",
}
DOXYFILE = """
PROJECT_NAME = Skiff
INPUT = "{headers}"
FILE_PATTERNS = *.h
OUTPUT_DIRECTORY = "{output}"
GENERATE_LATEX = NO
GENERATE_HTML = NO
GENERATE_MAN = YES
MAN_LINKS = YES
OPTIMIZE_OUTPUT_FOR_C = YES
JAVADOC_AUTOBRIEF = YES
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = SKIFF_API=
SORT_MEMBER_DOCS = NO
ENUM_VALUES_PER_LINE = 1
STRIP_FROM_PATH = "{above}"
STRIP_FROM_INC_PATH = "{above}"
QUIET = YES
WARN_IF_UNDOCUMENTED = NO
WARN_IF_INCOMPLETE_DOC = NO
WARN_AS_ERROR = FAIL_ON_WARNINGS
"""
LINK = re.compile(r"\.so man3/(\w+\.h)\.3")
HEADING = re.compile(r"^(#+) (.*)")
FENCE = re.compile(r"^\s*```")
REFERENCE = re.compile(r"!?\[([^\]]*)\]\(([^)\s]*)\)")


class ManError(Exception):
    """For people."""


class Link(typing.NamedTuple):
    """A page that is another one."""
    target: str


def run(arguments, **options):
    try:
        result = subprocess.run(arguments, check=False, capture_output=True, text=True, **options)
    except FileNotFoundError as error:
        raise ManError(f"{arguments[0]} is not installed: run tools/install-deps") from error
    if result.returncode != 0:
        raise ManError(f"{arguments[0]} failed:\n{result.stderr}")
    return result.stdout


def section3(headers):
    """Pages by their file names: one for each header, and for each name in it what leads there."""
    pages = {}
    with tempfile.TemporaryDirectory() as output:
        run(["doxygen", "-"], input=DOXYFILE.format(headers=headers, above=headers.parent, output=output))
        for path in sorted(pathlib.Path(output, "man", "man3").iterdir()):
            text = path.read_text(encoding="utf-8")
            if path.name.endswith(".h.3"):
                header = f"{headers.name}/{path.name[:-2]}"
                text = re.sub(r'^\.TH "[^"]*" 3 "[^"]*"', f'.TH "{header}" 3 ""', text, count=1, flags=re.M)
                text = re.sub(r"(\.SH SYNOPSIS\n(?:\.br\n|\.PP\n)*\\fC#include )<[^>]*>", rf"\1<{header}>", text, count=1)
                pages[f"{headers.name}_{path.name}"] = text
            elif not path.name.lower().startswith("skiff_"):
                continue  # A field: in the page of its struct.
            elif match := LINK.match(text):
                pages[path.name] = Link(f"{headers.name}_{match[1]}.3")
            else:
                pages[path.name] = re.sub(r'^(\.TH "[^"]*" 3) "[^"]*"', r'\1 ""', text, count=1, flags=re.M)
    return pages


def page_of(reference):
    """What a link to another page of docs/ is called in the manual."""
    for page, document in PAGES.items():
        if reference.partition("#")[0] == document:
            name, _, number = page.rpartition(".")
            return f" (**{name}**({number}))"
    return ""


def as_manual(text, name):
    """Markdown as manual pages have it: a NAME, sections one level up, no links to files."""
    lines, fenced = [], False
    for line in text.splitlines():
        if FENCE.match(line):
            fenced = not fenced
            line = "```" if fenced else line
        elif not fenced and (match := HEADING.match(line)):
            if len(match[1]) == 1:
                title = match[2].partition(": ")[2] or match[2]
                lines += ["# NAME", "", f"{name} - {title[0].lower()}{title[1:]}", "", "# DESCRIPTION"]
                continue
            line = f"{match[1][1:]} {match[2].upper() if len(match[1]) == 2 else match[2]}"
        elif not fenced:
            line = REFERENCE.sub(lambda match: match[1] + page_of(match[2]), line)
        lines.append(line)
    return "\n".join(lines) + "\n"


def find_heading(text, heading):
    position = text.find(f"\n{heading}\n")
    if position < 0:
        raise ManError(f"a page of the manual needs the section '{heading}', which is not in its document")
    return position + 1


def find_next(text, begin):
    """Where the section that begins there ends."""
    following = re.compile(r"^#{1,3} ", re.M).search(text, begin + 1)
    return following.start() if following else len(text)


def take(text, part, name):
    """What a part has of its document, as a document of its own."""
    begin = find_heading(text, part.description)
    described = text[begin + len(part.description):find_next(text, begin)]
    rest = text[find_heading(text, part.first):find_heading(text, part.end)]
    return f"# {name}: {part.title}\n{described}" + re.sub(r"^###", "##", rest, flags=re.M)


def leave_out(text, document):
    """A document without what has pages of its own."""
    for page, part in PAGES.items():
        if isinstance(part, Part) and part.document == document:
            name, _, number = page.rpartition(".")
            begin, end = find_heading(text, part.first), find_heading(text, part.end)
            text = f"{text[:begin]}{part.reference}\n\nSee **{name}**({number}).\n\n{text[end:]}"
    return text


def document_of(page, docs):
    """The Markdown that a page is made of."""
    source = PAGES[page]
    if isinstance(source, Part):
        return take((docs / source.document).read_text(encoding="utf-8"), source, page.rpartition(".")[0])
    return leave_out((docs / source).read_text(encoding="utf-8"), source)


def other_sections(docs, version):
    pages = {}
    for page in PAGES:
        name, _, number = page.rpartition(".")
        text = as_manual(document_of(page, docs), name)
        pages[page] = run(["lowdown", "-s", "-t", "man", "-M", f"title={name}", "-M", f"section={number}",
                           "-M", f"source=Skiff {version}", "-M", "volume=Skiff", "-M", "date="], input=text)
    return pages


def of_program(program, name, title, version):
    """The page of a program that has none in docs/: what it says of itself."""
    page = run(["help2man", "--no-info", "--section=1", f"--name={title}", f"--source=Skiff {version}", "--manual=Skiff",
                f"--version-string={name} {version}", program])
    return re.sub(r"^\.TH .*", f'.TH "{name}" "1" "" "Skiff {version}" "Skiff"', page, count=1, flags=re.M).replace(
        program.name, name)


def make(headers, docs, version):
    """All pages of headers and docs, by their file names."""
    return {**section3(headers), **other_sections(docs, version)}
