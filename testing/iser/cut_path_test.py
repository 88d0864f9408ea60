#!/usr/bin/env python3
"""auto:// from one host to another while RDMA's packets do not arrive, and TCP's do; and while the cable is pulled.

Usage, in two guests with Soft-RoCE: testing/vm/run --hosts 2 --peer-command "cut_path_test.py serve SKIFFD" -- cut_path_test.py SKIFF
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / directory) for directory in ("interop", "vm"))]
sys.dont_write_bytecode = True
import move_test  # pylint: disable=wrong-import-position
from cable_test import pulled  # pylint: disable=wrong-import-position
from cases import Cases  # pylint: disable=wrong-import-position
from processes import SECONDS, expect, output_of, wait_for  # pylint: disable=wrong-import-position

INTERFACE = "eth0"
# Two emulated machines share the cores of this one with whatever else it does.
START_SECONDS = 90
# Where both hosts leave files for one another.
EXCHANGE = pathlib.Path(os.environ["SKIFF_VM_SHARED"])
# For connecting and for logging in.
TIMEOUT = "--timeout=5s"
# TCP joins RDMA after that. The first handshake of two hosts can take more than a second.
PATIENT = "?stagger=4s"
# Such as the first login, between two hosts that have only just started.
VERY_PATIENT = "?stagger=15s"
VERY_PATIENT_TIMEOUT = "--timeout=30s"
# What arrives of RoCEv2 on IPv4: UDP with this port.
ROCE = "protocol ip u32 match ip protocol 17 0xff match ip dport 4791 0xffff"
# The destination queue pair, behind the headers of IP and UDP, is that of the handshakes.
HANDSHAKE = "match u32 0x00000001 0x00ffffff at 32"


def cut(but_for_handshakes):
    """Nothing of RoCE arrives here. What a host drops as it sends it makes Soft-RoCE hang (docs/testing-in-a-vm.md)."""
    output_of("tc", "qdisc", "add", "dev", INTERFACE, "ingress")
    add = f"tc filter add dev {INTERFACE} ingress"
    if but_for_handshakes:
        output_of(*f"{add} prio 1 {ROCE} {HANDSHAKE} action pass".split())
    output_of(*f"{add} prio 2 {ROCE} action drop".split())


def mend():
    output_of("tc", "qdisc", "delete", "dev", INTERFACE, "ingress")


def serve(skiffd):
    """On the second host: the target, and what the first host asks for, until the end."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory, \
            NearSkiffd(os.path.abspath(skiffd), ("ram:16MiB",), directory) as target:
        does = {"cut": cut, "mend": mend, "sessions": target.sessions, "log": target.log, "status": target.process.poll,
                "portal": lambda: target.portal}
        while True:
            for path in EXCHANGE.glob("*.request"):
                what, *arguments = json.loads(path.read_text(encoding="utf-8"))
                path.unlink()
                put(path.with_suffix(".answer"), does[what](*arguments))
            time.sleep(0.05)


def put(path, content):
    """As a whole, or not at all."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(content), encoding="utf-8")
    new.rename(path)


def ask(what, *arguments, seconds=SECONDS):
    """Has the second host do something; what comes of it."""
    path = EXCHANGE / f"{time.monotonic_ns()}.request"
    put(path, [what, *arguments])
    answer = path.with_suffix(".answer")
    wait_for(f"the second host's answer to {what}", answer.exists, seconds=seconds)
    return json.loads(answer.read_text(encoding="utf-8"))


class NearSkiffd(move_test.AutoSkiffd):
    """The target, on the second host."""

    start_seconds = START_SECONDS


class FarSkiffd(move_test.AutoSkiffd):
    """The same, seen from the first host."""

    host = os.environ.get("SKIFF_VM_ROCE_PEER", "")

    def __init__(self):
        super().__init__(None, (), "")

    def start(self):
        expect("the target listens", ask("portal", seconds=START_SECONDS) == self.portal)

    def log(self):
        return ask("log")

    def sessions(self, last=r" device .*\n"):
        return ask("sessions", last)


class Cut:
    """For as long as it lasts, RDMA's packets arrive on neither host."""

    def __init__(self, but_for_handshakes=False):
        self._but_for_handshakes = but_for_handshakes

    def __enter__(self):
        ask("cut", self._but_for_handshakes)
        cut(self._but_for_handshakes)

    def __exit__(self, *_):
        mend()
        ask("mend")


class FirstLogin:
    """Where handshakes arrive, and nothing that follows."""

    def __init__(self, skiff, target):
        self._skiff = skiff
        self._target = target

    def _ls(self, scheme, options="", timeout=TIMEOUT):
        url = f"{scheme}://{self._target.portal}/{self._target.name}{options}"
        return subprocess.run(
            [self._skiff, "ls", url, "--json", timeout],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)

    def is_by_rdma(self):
        done = self._ls("auto", VERY_PATIENT, VERY_PATIENT_TIMEOUT)
        expect(f"skiff ls ends with status 0: {done}", done.returncode == 0)
        session = json.loads(done.stdout)["targets"][0]["session"]
        expect(f"it is over RDMA: {session}", (session["data_model"], session["transport"]) == ("iSER", "verbs"))

    def falls_back(self):
        with Cut(but_for_handshakes=True):
            done = self._ls("auto", PATIENT)
        expect(f"skiff ls ends with status 0: {done}", done.returncode == 0)
        session = json.loads(done.stdout)["targets"][0]["session"]
        expect(f"it is over TCP: {session}", (session["data_model"], session["transport"]) == ("iSCSI", "tcp"))
        why = "RDMA connects, but the login over it failed: "
        expect(f"the session says why: {session}", why in "".join(session["fallbacks"]))
        expect(f"a warning says why: {done.stderr}", why in done.stderr)

    def fails_where_rdma_is_required(self):
        with Cut(but_for_handshakes=True):
            done = self._ls("iser")
        expect(f"skiff ls fails: {done}", done.returncode != 0 and "targets" not in json.loads(done.stdout))


class CutPathTest(move_test.MoveTest):
    """The cases of a session that goes on, in their order."""

    def goes_on_over_tcp(self):
        with Cut():
            self._load.heard.wait_for(r"session lost: .*", seconds=60)
            self._load.heard.wait_for(r"session restored; \d+ commands", seconds=60)
            self._target.expect_session_over(move_test.TRANSPORTS[1])
            before = self._target.commands()
            wait_for("the load", lambda: self._target.commands() > before + 1000)
            self._target.expect_session_over(move_test.TRANSPORTS[1])
            self._load.heard.forget()

    def moves_back(self):
        self._load.heard.wait_for(r"the session moves there(.*\n)*.*session restored, iSER ", seconds=60)
        self._target.expect_session_over(move_test.TRANSPORTS[0])

    def outlives_a_pulled_cable(self):
        self._load.heard.forget()
        with pulled(INTERFACE):
            self._load.heard.wait_for(r"session lost: .*", seconds=60)
            self._load.heard.forget()
        self._load.heard.wait_for(r"session restored, iSER ", seconds=60)

    def target_goes_on(self):
        status = ask("status")
        expect(f"skiffd runs: {status}", status is None)


def main():
    if sys.argv[1] == "serve":
        return serve(sys.argv[2])
    skiff = os.path.abspath(sys.argv[1])
    collected = Cases("cut_path")
    with FarSkiffd() as target:
        first = FirstLogin(skiff, target)
        collected.run("a first login is by RDMA", first.is_by_rdma)
        collected.run("a first login falls back to TCP", first.falls_back)
        collected.run("a first login fails where RDMA is required", first.fails_where_rdma_is_required)
        load = move_test.Load(skiff, f"auto://{target.portal}/{target.name}/0", (TIMEOUT,))
        try:
            test = CutPathTest(target, load)
            collected.run("begins by RDMA", test.begins_by_rdma)
            collected.run("goes on over TCP", test.goes_on_over_tcp)
            collected.run("moves back to RDMA", test.moves_back)
            collected.run("outlives a pulled cable", test.outlives_a_pulled_cable)
            collected.run("nothing was lost", test.nothing_was_lost)
            collected.run("the target goes on", test.target_goes_on)
        finally:
            load.kill()
        return move_test.finish(collected, load, target)


if __name__ == "__main__":
    sys.exit(main())
