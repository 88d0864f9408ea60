#!/usr/bin/env python3
"""A session of auto:// under load goes on over TCP when its RDMA device is removed, and over RDMA when that is back.

Usage, in a guest with both devices: move_test.py SKIFF SKIFFD

With Soft-iWARP's device beside: librdmacm lets a removed device go only where there is another one.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / directory) for directory in ("interop", "vm")]
sys.dont_write_bytecode = True
import peers  # pylint: disable=wrong-import-position
from cases import Cases  # pylint: disable=wrong-import-position
from processes import Heard, expect, output_of, wait_for  # pylint: disable=wrong-import-position

DEVICE, INTERFACE = "rxe0", "eth0"
# Everything has to have happened by then: it takes a tenth of it where nothing else is at work.
RUN_SECONDS = 240
# How skiff ends after Ctrl-C.
INTERRUPTED = 130
RETRY = "1s"
TRANSPORTS = ("iSER over verbs", "iSCSI over tcp")


class AutoSkiffd(peers.Skiffd):
    """Skiff's target by RDMA and TCP at one address and port."""

    scheme = "auto"
    host = os.environ.get("SKIFF_VM_ROCE_ADDRESS", "")
    port = 3260

    def says(self, pattern):
        return re.search(pattern, self.log())

    def _session(self):
        """What it says of its only session from now on: what that runs on, and its commands; None without one."""
        return re.search(r"TSIH.*, (\S+ over \S+), (\d+) commands", self.sessions(last=r" TSIH.*\n"))

    def commands(self):
        session = self._session()
        return int(session[2]) if session else 0

    def expect_session_over(self, model_and_transport):
        session = self._session()
        expect(f"the target says {model_and_transport}: {session and session[0]}",
               session and session[1] == model_and_transport)


class Load:
    """Verified reads and writes that go on until they are asked for their report."""

    def __init__(self, skiff, url, flags=()):
        self._process = subprocess.Popen(
            [skiff, "perf", url, "--rw=randrw", "--verify", "--verbose", "--json", "--bs=16k", "--iodepth=16", "--size=4m",
             f"--runtime={RUN_SECONDS}s", f"--rdma-retry-interval={RETRY}", "--reconnect-timeout=120s", *flags],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.heard = Heard(self._process)

    def report(self):
        expect(f"skiff perf goes on: {self.heard.text}", self._process.poll() is None)
        self._process.send_signal(signal.SIGINT)
        wait_for("the end of skiff perf", lambda: self.heard.says("") and self._process.poll() is not None, seconds=60)
        self.heard.says("")
        text = self.heard.text
        status = self._process.returncode
        expect(f"skiff perf ends with status {INTERRUPTED}, not {status}: {text}", status == INTERRUPTED)
        return json.JSONDecoder().raw_decode(text[re.search(r"^\{", text, re.MULTILINE).start():])[0]

    def kill(self):
        self._process.kill()


class MoveTest:
    """The cases, in their order."""

    def __init__(self, target, load):
        self._target = target
        self._load = load

    def begins_by_rdma(self):
        self._load.heard.wait_for(r": connected, iSER ")
        # More than the pass that fills the range has.
        wait_for("the load", lambda: self._target.commands() > 1000)
        self._target.expect_session_over(TRANSPORTS[0])

    def goes_on_over_tcp(self):
        # Waits until everybody has let the device go.
        subprocess.Popen(["rdma", "link", "delete", DEVICE], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
        self._load.heard.wait_for(r"session lost: .*", seconds=60)
        self._load.heard.wait_for(r"session restored; \d+ commands", seconds=60)
        self._target.expect_session_over(TRANSPORTS[1])
        wait_for("the target's listener hears of it", self._target.says, r"verbs stopped to listen: .* was removed.*every 2s")

    @staticmethod
    def lets_the_device_go():
        path = pathlib.Path(f"/sys/class/infiniband/{DEVICE}")
        wait_for(f"both let {DEVICE} go", lambda: not path.exists(), seconds=60)

    def moves_back(self):
        output_of("rdma", "link", "add", DEVICE, "type", "rxe", "netdev", INTERFACE)
        wait_for("the target listens again", self._target.says, r"auto://\S+: listening again")
        self._load.heard.wait_for(r"the session moves there, \d+ commands wait")
        self._load.heard.wait_for(r"the session moves there(.*\n)*.*session restored, iSER ")
        self._target.expect_session_over(TRANSPORTS[0])

    def nothing_was_lost(self):
        report = self._load.report()
        session = report["sessions"][0]
        expect(f"blocks were checked: {report}", report["verified_blocks"] and report["read"]["ios"] and report["write"]["ios"])
        for key, value in (("data_model", "iSER"), ("transport", "verbs")):
            expect(f"{key} is {value} at last: {report}", report[key] == session[key] == value)
        expect(f"commands were retried: {session}", session["retries"] > 0)
        # To TCP and back.
        expect(f"two reconnects at least: {session}", session["reconnects"] >= 2)

    def target_goes_on(self):
        expect(f"skiffd runs: {self._target.process.poll()}", self._target.process.poll() is None)


def finish(collected, load, target):
    """The exit status; after a failure, prints what everybody said."""
    status = collected.finish()
    if status != 0:
        print(f"-- skiff\n{load.heard.text[-5000:]}\n-- skiffd\n{target.log()[-5000:]}\n-- the kernel\n{output_of('dmesg')[-3000:]}")
    return status


def main():
    skiff, skiffd = (os.path.abspath(program) for program in sys.argv[1:3])
    collected = Cases("move")
    with tempfile.TemporaryDirectory(dir="/tmp") as directory, AutoSkiffd(skiffd, ("ram:16MiB",), directory) as target:
        load = Load(skiff, f"auto://{target.portal}/{target.name}/0")
        try:
            test = MoveTest(target, load)
            collected.run("begins by RDMA", test.begins_by_rdma)
            collected.run("goes on over TCP", test.goes_on_over_tcp)
            collected.run("lets the device go", test.lets_the_device_go)
            collected.run("moves back to RDMA", test.moves_back)
            collected.run("nothing was lost", test.nothing_was_lost)
            collected.run("the target goes on", test.target_goes_on)
        finally:
            load.kill()
        return finish(collected, load, target)


if __name__ == "__main__":
    sys.exit(main())
