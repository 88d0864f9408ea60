#!/usr/bin/env python3
"""Skiff's initiator against Debian's tgt.

Usage: tgt_test.py SKIFF TASK_MANAGEMENT_PROBE
"""

import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import cases  # pylint: disable=wrong-import-position
import peers  # pylint: disable=wrong-import-position

LUN_BYTES = 64 << 20
LIMIT_SECONDS = 60
LOGIN_FAILED = 3  # skiff's exit status.


def check_report(text):
    report = json.loads(text)
    if report["read"]["ios"] == 0 or report["write"]["ios"] == 0 or report["verified_blocks"] == 0:
        raise peers.PeerError(f"nothing was read, written or checked: {report}")


USER = ("initiator", "the initiator's own secret")
OWN = ("tgt", "what the target knows")
WRONG_SECRET = "not what either of them knows"


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
        """Mixed reads and writes, each checked."""
        check_report(self._run(*self._perf_command(*flags)))

    def discovery(self):
        output = self._run("discover", f"iscsi://{self._target.portal}")
        if self._target.name not in output:
            raise peers.PeerError(f"no {self._target.name} in\n{output}")

    def digests(self, header, data):
        self._target.set("HeaderDigest", header)
        self._target.set("DataDigest", data)
        # Offers nothing else, so that no other digest can be in force.
        self.perf("--bs=16k", "--size=8m", "--runtime=0.3s", f"--header-digest={header.lower()}",
                  f"--data-digest={data.lower()}")

    def digest_mismatch(self):
        """The target wants no digest, the initiator accepts nothing but one: refused, and said why."""
        self._target.set("HeaderDigest", "None")
        command = [self._program, "inquiry", self._target.url(), "--header-digest=crc32c"]
        status, output = peers.run_limited(command, LIMIT_SECONDS)
        if status != LOGIN_FAILED or "HeaderDigest" not in output:
            raise peers.PeerError(f"status {status}, and not {LOGIN_FAILED} and a word on HeaderDigest\n{output}")

    def sizes(self, block_size, size):
        self.perf(f"--bs={block_size}", f"--size={size}", "--runtime=0.5s")

    def logs_out(self):
        """A session that ended in order is gone from the target at once."""
        self.perf("--bs=4k", "--size=4m", "--runtime=0.2s")
        connections = self._target.connections()
        if connections:
            raise peers.PeerError(f"tgt still has\n{connections}")

    def authenticates(self, directory, secret=USER[1], own_secret=None, refused=""):
        """By CHAP, mutual with `own_secret`; or is `refused` for this reason."""
        url = self._target.url().replace("://", f"://{USER[0]}@")
        options = ["--password-file", peers.write_secret(directory, "initiator", secret)]
        if own_secret is not None:
            options += ["--target-user", OWN[0], "--target-password-file", peers.write_secret(directory, "tgt", own_secret)]
        # tgt takes SHA-256's number for SHA1's, and knows no other but MD5 (docs/interoperability.md).
        status, output = peers.run_limited([self._program, "capacity", f"{url}?chap_algorithms=MD5", *options], LIMIT_SECONDS)
        if status != (LOGIN_FAILED if refused else 0) or refused not in output:
            raise peers.PeerError(f"status {status}, reason '{refused}'\n{output}")

    def survives_restarts(self):
        """tgtd killed twice under load: every command is done in the end, every block is what was written last."""
        process = peers.spawn([self._program, *self._perf_command("--bs=4k", "--size=8m", "--runtime=10s", "--verbose")],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        # After the first, the initiator waits for the 2 s of DefaultTime2Wait.
        for pause in (1, 4):
            time.sleep(pause)
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
        check_report(output)
        restored = len(re.findall(r"\bconnected\b|\brestored\b", errors))
        if restored < 3:
            raise peers.PeerError(f"{restored} connections, and not the first and two more\n{errors}")


def run_probe(program, target):
    status, output = peers.run_limited(
        [program, f"--portal=tcp://{target.portal}", f"--target={target.name}", f"--lun={target.lun}",
         "--refused=CLEAR TASK SET,TARGET WARM RESET"], LIMIT_SECONDS)
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
            target.set("DataDigest", "None")
            collected.run("digests: mismatch", initiator.digest_mismatch)
            # Immediate data alone; unsolicited data; with R2Ts; many of them.
            for block_size, size in (("512", "2m"), ("4k", "8m"), ("64k", "32m"), ("512k", "64m"), ("1m", "64m")):
                collected.run(f"verified mixed I/O, {block_size}", initiator.sizes, block_size, size)
            collected.run("logout", initiator.logs_out)
            collected.run("task management", run_probe, probe, target)
            collected.run("restarts under load", initiator.survives_restarts)
            target.authenticate(USER, OWN)
            collected.run("CHAP: one-way", initiator.authenticates, directory)
            collected.run("CHAP: mutual", initiator.authenticates, directory, USER[1], OWN[1])
            collected.run("CHAP: wrong secret of the initiator", initiator.authenticates, directory, WRONG_SECRET, None,
                          "authentication failure")
            collected.run("CHAP: wrong secret of the target", initiator.authenticates, directory, USER[1], WRONG_SECRET,
                          "the target does not know the secret")
    return collected.finish()


if __name__ == "__main__":
    sys.exit(main())
