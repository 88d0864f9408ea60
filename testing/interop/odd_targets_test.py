#!/usr/bin/env python3
"""skiff with targets that are small, old, ill, or that lie, each a few lines here.

Usage: odd_targets_test.py SKIFF
"""

import pathlib
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "daemon"))
from raw_target import (BLOCK, BLOCKS, INQUIRY, READ_10, READ_CAPACITY_16, RECOVERED_ERROR, REPORT_LUNS,
                        STANDARD_INQUIRY, WRITE_10, Target, answers, nothing, refuses)

LIMIT_SECONDS = 60


def recovers(missing):
    """Reads all but `missing` bytes, and says that it had trouble."""
    def odd(connection, command):
        if command.cdb[0] != READ_10:
            return False
        connection.data_in(command, bytes(command.length - missing), final=False)
        connection.check_condition(command, RECOVERED_ERROR, 0x17)
        return True
    return odd


def writes(*ranges):
    """Asks for these halves of the data, and says that all is written."""
    def odd(connection, command):
        if command.cdb[0] != WRITE_10:
            return False
        half = command.length // 2
        for number, which in enumerate(ranges):
            connection.ask(command, which * half, half, number)
        connection.status(command)
        return True
    return odd


def meets_a_condition(operation):
    """Moves no data, and ends with the other status that is no error."""
    def odd(connection, command):
        if command.cdb[0] == operation:
            connection.status(command, 4)
        return command.cdb[0] == operation
    return odd


def has_more(connection, command):
    """Has more INQUIRY data than were asked for, and says so."""
    if command.cdb[0] != INQUIRY or command.cdb[1] & 1:
        return False
    connection.send(0x25, command.tag, flags=0x85, data=STANDARD_INQUIRY.ljust(command.length, b"\0"),
                    at={20: b"\xff" * 4, 44: struct.pack(">I", 1000)})
    return True


def lists_lun(first_level):
    return answers(REPORT_LUNS, struct.pack(">IIH", 8, 0, first_level) + bytes(6))


def main():
    skiff = sys.argv[1]
    failures = []

    def trial(what, odd, arguments, status, words, luns=None):
        target = Target(odd)
        command = [skiff] + [argument.replace("URL", target.url()) for argument in arguments]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_SECONDS,
                              text=True, check=False)
        right = done.returncode == status and words in done.stdout and luns in (None, target.luns)
        print("ok   " if right else "WRONG", what)
        if not right:
            failures.append(what)
            print(f"  status {done.returncode}, LUNs {target.luns}: {done.stdout}")

    with tempfile.NamedTemporaryFile() as data:
        data.write(bytes(4096))
        data.flush()
        read = ["read", "URL/0", "--length=4k", "-q", "-o", "/dev/null"]
        write = ["write", "URL/0", "-q", "-i", data.name]
        trial("nothing odd", nothing, read, 0, "")
        trial("no REPORT LUNS", refuses(REPORT_LUNS), ["ls", "URL"], 0, "ODD DISK")
        trial("protection information", answers(READ_CAPACITY_16, struct.pack(">QIB", BLOCKS - 1, BLOCK, 1) + bytes(19)),
              ["capacity", "URL/0"], 0, str(BLOCKS * BLOCK))
        trial("more INQUIRY data", has_more, ["inquiry", "URL/0"], 0, "ODD DISK")
        trial("RECOVERED ERROR with all data", recovers(0), read, 0, "the disk recovered from an error")
        trial("RECOVERED ERROR without some", recovers(512), read, 1, "residual of 512 bytes")
        for first_level in (0x012c, 0x412c):
            trial(f"LUN 300 listed as {first_level:04x}h", lists_lun(first_level), ["capacity", "URL/300"], 0,
                  str(BLOCKS * BLOCK), {f"{first_level:04x}"})
        trial("data of a write asked for", writes(0, 1), write, 0, "")
        trial("not asked for", writes(), write, 1, "residual of 4096 bytes")
        trial("half of them", writes(0), write, 1, "residual of 2048 bytes")
        trial("one half twice", writes(0, 0), write, 1, "residual of 2048 bytes")
        trial("the second half only", writes(1), write, 1, "residual of 2048 bytes")
        for operation, arguments in ((READ_10, read), (WRITE_10, write)):
            trial(f"CONDITION MET for {operation:02x}h", meets_a_condition(operation), arguments, 1,
                  "CONDITION MET, but a residual of 4096 bytes")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
