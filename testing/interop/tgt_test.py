#!/usr/bin/env python3
"""Skiff's initiator against Debian's tgt.

Usage: tgt_test.py SKIFF TASK_MANAGEMENT_PROBE
"""

import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import cases  # pylint: disable=wrong-import-position
import peers  # pylint: disable=wrong-import-position

LUN_BYTES = 64 << 20
LIMIT_SECONDS = 60


class Initiator:
    """The command line of Skiff's initiator against one tgtd."""

    def __init__(self, program, target):
        self._program = program
        self._target = target

    def _run(self, *arguments):
        command = [self._program, *arguments]
        status, output = peers.run_limited(command, LIMIT_SECONDS)
        if status != 0:
            raise peers.PeerError(f"{' '.join(map(str, command))}: status {status}\n{output}")
        return output

    def _perf_command(self, *flags):
        return ["perf", self._target.url(), "--rw=randrw", "--verify", "--iodepth=32", "--json", *flags]

    def perf(self, *flags):
        """Mixed reads and writes, each checked; the report."""
        result = json.loads(self._run(*self._perf_command(*flags)))
        if result["iops"] <= 0 or result["verified"] <= 0:
            raise peers.PeerError(f"nothing was read and checked: {result}")
        return result

    def discovery(self):
        output = self._run("discover", f"iscsi://{self._target.portal}")
        if self._target.name not in output:
            raise peers.PeerError(f"no {self._target.name} in\n{output}")

    def digests(self, header, data):
        self._target.set("HeaderDigest", header)
        self._target.set("DataDigest", data)
        result = self.perf("--bs=16k", "--runtime=0.3", f"--header-digest={header}", f"--data-digest={data}")
        for what, wanted in (("header_digest", header), ("data_digest", data)):
            if result[what].lower() != wanted.lower():
                raise peers.PeerError(f"{what} is {result[what]}, not {wanted}")

    def sizes(self, block_size):
        self.perf(f"--bs={block_size}", "--runtime=1")

    def logs_out(self):
        """A session that ended in order is gone from the target at once."""
        self.perf("--bs=4k", "--runtime=0.2")
        connections = self._target.connections()
        if connections:
            raise peers.PeerError(f"tgt still has\n{connections}")

    def survives_restarts(self):
        """tgtd killed twice under load: every command is done in the end, every block is what was written last."""
        process = peers.spawn([self._program, *self._perf_command("--bs=4k", "--runtime=5")],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2):
            time.sleep(1)
            self._target.kill()
            time.sleep(0.3)
            self._target.start()
        try:
            output, errors = process.communicate(timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
            raise peers.PeerError(f"skiff perf hangs\n{errors}{output}") from None
        if process.returncode != 0:
            raise peers.PeerError(f"skiff perf: status {process.returncode}\n{errors}{output}")
        result = json.loads(output)
        if result["reconnects"] < 2 or result["verified"] <= 0:
            raise peers.PeerError(f"no two reconnections, or nothing checked: {result}")


def run_probe(program, target):
    status, output = peers.run_limited(
        [program, f"--portal=tcp://{target.portal}", f"--target={target.name}", f"--lun={target.lun}"], LIMIT_SECONDS)
    print(output)
    if status != 0:
        raise peers.PeerError(f"status {status}: {output}")


def main():
    skiff, probe = (pathlib.Path(argument).absolute() for argument in sys.argv[1:])
    collected = cases.Cases("tgt")
    with tempfile.TemporaryDirectory() as directory:
        image = pathlib.Path(directory) / "lun"
        with open(image, "wb") as file:
            file.truncate(LUN_BYTES)
        with peers.Tgtd(image, directory) as target:
            initiator = Initiator(skiff, target)
            collected.run("discovery", initiator.discovery)
            for header, data in itertools.product(("None", "CRC32C"), repeat=2):
                collected.run(f"digests: header {header}, data {data}", initiator.digests, header, data)
            target.set("HeaderDigest", "None")
            target.set("DataDigest", "None")
            # Immediate data alone; unsolicited data; with R2Ts; many of them.
            for block_size in ("512", "4k", "64k", "512k", "1m"):
                collected.run(f"verified mixed I/O, {block_size}", initiator.sizes, block_size)
            collected.run("logout", initiator.logs_out)
            collected.run("task management", run_probe, probe, target)
            collected.run("restarts under load", initiator.survives_restarts)
    return collected.finish()


if __name__ == "__main__":
    sys.exit(main())
