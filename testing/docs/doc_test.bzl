"""Tests of what documents show."""

def skiff_doc_test(name, document, programs, **kwargs):
    """Runs the commands of a document's blocks that start with ```sh run; run_doc.py says how.

    Args:
      name: the test's name.
      document: a Markdown file's label.
      programs: labels of the programs that the commands use, found by their names.
      **kwargs: passed on to sh_test.
    """
    native.sh_test(
        name = name,
        srcs = ["//testing/docs:run_doc.py"],
        args = ["$(rootpath %s)" % document] + ["$(rootpath %s)" % program for program in programs],
        data = [document] + programs,
        **kwargs
    )
