#!/usr/bin/env python3
"""Runs the commands that a Markdown document shows, as its reader would.

Usage: run_doc.py DOCUMENT.md [PROGRAM...]

The blocks that start with ```sh run are joined to one bash script, which runs in an empty directory and stops at the
first command that fails. The PROGRAMs are found by their names. Port 3260 stands for one that is free. What the script
starts in the background is ended in the end.

A block that starts with ```text output shows what the block before it prints; lines of "..." stand for any lines, and
"..." within a line for any text.
"""

import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile

SECONDS = 120
PORT = "3260"
MARK = "@@block "
FENCE = re.compile(r"^```(\S*) *(\S*)$")


class Block:
    """A runnable block, and what it is expected to print."""

    def __init__(self, line):
        self.line = line
        self.commands = []
        self.output = None


def read_blocks(path):
    blocks, lines = [], None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        fence = FENCE.match(line)
        if lines is not None:
            if line == "```":
                lines = None
            else:
                lines.append(line)
        elif fence and fence.groups() == ("sh", "run"):
            blocks.append(Block(number))
            lines = blocks[-1].commands
        elif fence and fence.groups() == ("text", "output"):
            if not blocks or blocks[-1].output is not None:
                sys.exit(f"{path}:{number}: no block before this one shows what is run")
            lines = blocks[-1].output = []
        elif fence:
            lines = []
    if lines is not None:
        sys.exit(f"{path}: the last block does not end")
    return blocks


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def script_of(blocks, port):
    lines = ["set -euo pipefail"]
    for index, block in enumerate(blocks):
        lines.append(f"printf '%s\\n' {shlex.quote(MARK + str(index))}")
        lines += [re.sub(rf"\b{PORT}\b", port, command) for command in block.commands]
    return "\n".join(lines) + "\n"


def matches(expected, actual):
    """True if the lines are those expected, where "..." stands for what may differ."""
    parts = []
    for line in expected:
        if line.strip() == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append("".join(".*" if piece == "..." else re.sub(r"(?:\\ |\s)+", r"\\s+", re.escape(piece))
                                 for piece in re.split(r"(\.\.\.)", line.rstrip())) + r"\s*\n")
    return re.fullmatch("".join(parts), "".join(line + "\n" for line in actual)) is not None


def outputs_of(text, count):
    """What each block printed; None for those that did not run."""
    outputs = [None] * count
    current = None
    for line in text.splitlines():
        if line.startswith(MARK):
            current = outputs[int(line[len(MARK):])] = []
        elif current is not None:
            current.append(line)
    return outputs


def run(blocks, programs):
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory)
        (root / "bin").mkdir()
        (root / "work").mkdir()
        for program in programs:
            (root / "bin" / pathlib.Path(program).name).symlink_to(os.path.abspath(program))
        environment = dict(os.environ, PATH=f"{root / 'bin'}:{os.environ.get('PATH', '/usr/bin:/bin')}", LC_ALL="C")
        with open(root / "output", "w+", encoding="utf-8", errors="replace") as output:
            # A session of its own, so that everything in it can be ended. A file for the output, so that nobody waits
            # for what runs in the background.
            with subprocess.Popen(["bash", "-c", script_of(blocks, port)], cwd=root / "work", env=environment,
                                  stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                  start_new_session=True) as process:
                try:
                    status = process.wait(SECONDS)
                except subprocess.TimeoutExpired:
                    status = None
                finally:
                    try:
                        os.killpg(process.pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
            output.seek(0)
            return status, output.read().replace(port, PORT)


def main():
    document = pathlib.Path(sys.argv[1])
    blocks = read_blocks(document)
    if not blocks:
        sys.exit(f"{document}: shows nothing to run")
    status, text = run(blocks, sys.argv[2:])
    failures = 0
    for block, output in zip(blocks, outputs_of(text, len(blocks))):
        if output is None:
            print(f"NOT RUN  {document}:{block.line}")
            continue
        wrong = block.output is not None and not matches(block.output, output)
        print(f"{'DIFFERS' if wrong else 'ran':8} {document}:{block.line}")
        for line in output:
            print(f"         {line}")
        failures += wrong
    if status is None:
        print(f"not done after {SECONDS} s")
    elif status != 0:
        print(f"the last command ended with exit status {status}")
    return 0 if status == 0 and failures == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
