"""Skiff's initiator, by its command line, on a target in a guest."""

import json
import os
import pathlib
import re
import subprocess
import tempfile

from kernel import Failure, expect, run

MIB = 1 << 20
SECONDS = 60


def manages_tasks(probe, portal, target, lun, *options, disturb=None):
    """//testing/interop:task_management_probe with a target; `disturb` runs meanwhile. What the probe said."""
    command = [probe, f"--portal={portal}", f"--target={target}", f"--lun={lun}", *options]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as process:
        try:
            if disturb is not None:
                disturb()
            output, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise Failure("the probe hangs") from None
        finally:
            process.kill()
    expect(f"the probe ends with status 0, not {process.returncode}: {output}", process.returncode == 0)
    print(output)
    return output


class Initiator:
    """`skiff` with the disks of one target, which have names and are `luns` there."""

    def __init__(self, program, portal, target, luns, suffix="", model="iSER", options=()):
        self._program = program
        self._portal = portal  # Scheme and address.
        self._target = target
        self._luns = luns
        self._suffix = suffix  # Of every URL.
        self._model = model
        self._options = options  # Of every command.

    def _url(self, disk):
        return f"{self._portal}/{self._target}/{self._luns[disk]}{self._suffix}"

    def skiff(self, *arguments):
        return run(self._program, *arguments, *self._options)

    def discover(self):
        found = self.skiff("discover", f"{self._portal}{self._suffix}")
        address = self._portal.split("://")[1]
        expect(f"{self._target} is at {address}: {found}", self._target in found and address in found)

    def vendor(self, disk, vendor):
        expect("INQUIRY", vendor in self.skiff("inquiry", self._url(disk)))

    def size(self, disk, size):
        found = json.loads(self.skiff("capacity", self._url(disk), "--json"))
        expect(f"the size of {disk}: {found}", found["capacity"]["size"] == size)

    def list_disks(self, count):
        found = self.skiff("ls", f"{self._portal}{self._suffix}")
        # Problems are lines with the target's name below the table.
        rows = re.findall(rf"^{re.escape(self._target)} +\d+ ", found, re.MULTILINE)
        expect(f"{count} logical units are listed: {found}", len(rows) == count)

    def copies(self, disk):
        """There and back; what comes back is what went."""
        data = os.urandom(12 * MIB)
        with tempfile.TemporaryDirectory(dir="/tmp") as directory:
            source, back = (pathlib.Path(directory) / name for name in ("source", "back"))
            source.write_bytes(data)
            self.skiff("copy", source, self._url(disk), "--verify", "--quiet")
            self.skiff("copy", self._url(disk), back, "--length", len(data), "--quiet")
            expect("what was written is read", back.read_bytes() == data)

    def reset(self, disk):
        self.skiff("reset", self._url(disk))

    def _perf_command(self, disk, *options):
        return [self._program, "perf", self._url(disk), "--rw=randrw", "--verify", "--verbose", "--json",
                *self._options, *options]

    @staticmethod
    def _report(text):
        """What skiff printed as JSON, with or without its log around it."""
        return json.JSONDecoder().raw_decode(text[re.search(r"^\{", text, re.MULTILINE).start():])[0]

    def _check_perf(self, text):
        report = self._report(text)
        expect(f"it ran over {self._model}: {text}", report["data_model"] == self._model)
        expect(f"blocks were read, written and checked: {text}",
               report["read"]["ios"] and report["write"]["ios"] and report["verified_blocks"])
        return report

    def perf(self, disk, *options):
        """Reads and writes, each checked; skiff's report."""
        return self._check_perf(run(*self._perf_command(disk, *options)))

    def perf_during(self, disk, disturb, *options, seconds=SECONDS):
        """The same while `disturb` does its worst: every command is done in the end. What skiff said."""
        output = self._output_during(self._perf_command(disk, *options), disturb, seconds)
        self._check_perf(output)
        return output

    def ping_during(self, disturb, *options):
        """Pings of an idle session while `disturb` does its worst; skiff's report."""
        url = f"{self._portal}/{self._target}{self._suffix}"
        return self._report(self._output_during([self._program, "ping", url, "--json", *self._options, *options], disturb,
                                                SECONDS))

    @staticmethod
    def _output_during(command, disturb, seconds):
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True) as process:
            try:
                disturb()
                output, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                raise Failure(f"skiff {command[1]} hangs") from None
            finally:
                process.kill()
        expect(f"skiff {command[1]} ends with status 0, not {process.returncode}: {output}", process.returncode == 0)
        return output
