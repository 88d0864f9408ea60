#!/usr/bin/env python3
"""Skiff's target under libiscsi's tools and its conformance suite, iscsi-test-cu.

Usage: libiscsi_test.py SKIFFD        as a test: every result has to be the one that libiscsi_expected.txt says
       libiscsi_test.py --tgt         the same against Debian's tgt: only prints the results
       --only PATTERN                 the tests whose SUITE.TEST matches (a regular expression), with full output
       --jobs N                       targets, and tests, at once (2)
"""

import argparse
import pathlib
import re
import sys
import tempfile

sys.dont_write_bytecode = True
import cases  # pylint: disable=wrong-import-position
import libiscsi_suite  # pylint: disable=wrong-import-position
import peers  # pylint: disable=wrong-import-position

TOOL_SECONDS = 20


def check_tool(command, *patterns):
    status, output = peers.run_limited([peers.find_program(command[0]), *command[1:]], TOOL_SECONDS)
    if status != 0:
        raise peers.PeerError(f"{' '.join(command)}: status {status}\n{output}")
    for pattern in patterns:
        if re.search(pattern, output) is None:
            raise peers.PeerError(f"{' '.join(command)}: no '{pattern}' in\n{output}")


def run_tools(target, collected):
    """libiscsi's small tools, each checked for what it has to find."""
    url = target.url()
    checks = [
        ("iscsi-ls", ["-s", f"iscsi://{target.portal}"], [re.escape(target.name), r"Lun:\d+ +Type:DIRECT_ACCESS"]),
        ("iscsi-inq", [url], [r"Peripheral Device Type:DIRECT_ACCESS", r"(?i)vendor:\s*\S+", r"(?i)product:\s*\S+"]),
        ("iscsi-inq", ["-e", "1", "-c", str(0x00), url], [r"(?i)page:0x83", r"(?i)page:0xb0"]),
        ("iscsi-inq", ["-e", "1", "-c", str(0x80), url], [r"(?i)serial number.*\S"]),
        ("iscsi-inq", ["-e", "1", "-c", str(0x83), url], [r"(?i)designator type:\(\d\)"]),
        ("iscsi-inq", ["-e", "1", "-c", str(0xb0), url], [r"(?i)maximum transfer length:\d+"]),
        ("iscsi-inq", ["-e", "1", "-c", str(0xb1), url], [r"(?i)medium rotation rate:"]),
        ("iscsi-inq", ["-e", "1", "-c", str(0xb2), url], [r"(?i)provisioning type:\d"]),
        ("iscsi-readcapacity16", [url], [r"(?i)block length in bytes:512\b", r"(?i)total size:1073741824"]),
        ("iscsi-swp", [url], [r"SWP:0"]),
        ("iscsi-swp", ["--swp", "on", url], []),
        ("iscsi-swp", [url], [r"SWP:1"]),
        ("iscsi-swp", ["--swp", "off", url], []),
    ]
    for number, (tool, arguments, patterns) in enumerate(checks):
        options = " ".join(argument for argument in arguments if "://" not in argument)
        collected.run(f"{tool} {options} #{number}".replace("  ", " "), check_tool, [tool, *arguments], *patterns)


def is_refused(command, message):
    status, output = peers.run_limited([peers.find_program(command[0]), *command[1:]], TOOL_SECONDS)
    if status == 0 or message not in output:
        raise peers.PeerError(f"{' '.join(command)}: status {status}, and not another one and '{message}'\n{output}")


def run_chap(skiffd, collected):
    """CHAP, which libiscsi does by MD5, in the ways that its URLs have for it."""
    user, own, wrong = ("initiator", "initiators-secret"), ("target", "targets-secret"), "neither-of-them"
    with tempfile.TemporaryDirectory() as directory, peers.ChapSkiffd(skiffd, directory, user, own) as target:
        def url(path, secret=user[1], own_secret=None):
            mutual = f"?target_user={own[0]}&target_password={own_secret}" if own_secret else ""
            return f"iscsi://{user[0]}%{secret}@{target.portal}{path}{mutual}"

        disk = f"/{target.name}/0"
        for kind, own_secret in (("one-way", None), ("mutual", own[1])):
            collected.run(f"CHAP in discovery: {kind}", check_tool, ["iscsi-ls", url("", own_secret=own_secret)],
                          re.escape(target.name))
            collected.run(f"CHAP: {kind}", check_tool, ["iscsi-inq", url(disk, own_secret=own_secret)],
                          r"Peripheral Device Type:DIRECT_ACCESS")
        collected.run("CHAP: wrong secret of the initiator", is_refused, ["iscsi-inq", url(disk, wrong)],
                      "Authentication failure")
        collected.run("CHAP: wrong secret of the target", is_refused, ["iscsi-inq", url(disk, own_secret=wrong)],
                      "Invalid CHAP_R response from the target")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("skiffd", nargs="?")
    parser.add_argument("--tgt", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    if bool(options.skiffd) == options.tgt:
        parser.error("either the path of skiffd, or --tgt")

    def make_target(directory, number):
        if not options.tgt:
            return peers.Skiffd(options.skiffd, libiscsi_suite.LUNS, directory)
        image = pathlib.Path(directory) / f"lun{number}"
        with open(image, "wb") as file:
            file.truncate(1 << 30)
        return peers.Tgtd(image, directory)

    names = libiscsi_suite.list_tests()
    expected = None if options.tgt else libiscsi_suite.read_expected(libiscsi_suite.EXPECTED, names)
    collected = cases.Cases("libiscsi")
    if options.only:
        names = [name for name in names if re.search(options.only, name)]
    else:
        with tempfile.TemporaryDirectory() as directory, make_target(directory, 0) as target:
            run_tools(target, collected)
        if not options.tgt:
            run_chap(options.skiffd, collected)
    suite = libiscsi_suite.Suite(make_target, expected, collected, bool(options.only))
    suite.run([[name] for name in names], options.jobs)
    return collected.finish()


if __name__ == "__main__":
    sys.exit(main())
