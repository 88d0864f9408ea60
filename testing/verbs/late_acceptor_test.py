#!/usr/bin/env python3
"""Peers that the scheduler keeps waiting between their answer to a connect and all else, on Soft-iWARP.

What is sent to them in between, the kernel's driver lets lie (docs/transport-verbs-notes.md). On one processor, with a kernel
that preempts itself and a peer that gives way to everybody, that is every connection's first message.

Usage: late_acceptor_test.py SKIFF SKIFFD RPING_PEER
"""

import contextlib
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / directory) for directory in ("interop", "vm")]
sys.dont_write_bytecode = True
import peers  # pylint: disable=wrong-import-position
from cases import Cases  # pylint: disable=wrong-import-position
from processes import expect, listens_rdma, output_of, serving  # pylint: disable=wrong-import-position

PREEMPTION = pathlib.Path("/sys/kernel/debug/sched/preempt")
ADDRESS = os.environ.get("SKIFF_VM_ADDRESS", "")
CONNECTIONS = 4
# Less than what a target gives a login.
LIMIT = 10
# More than rping takes for that, many times.
RPING_LIMIT = 5
RPING_PORT = 7174
# What rping's thread for events dies of at times, when its client is done and takes the channel away.
RPING_END = "rdma_get_cm_event: Bad file descriptor"
# Of our client's data.
RPING_BYTES = 100
SERVED = {
    "verbs": f"verbs://{ADDRESS}:{RPING_PORT}",
    "verbs on all addresses": f"verbs://0.0.0.0:{RPING_PORT}",
}


def give_way(pid):
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setscheduler(int(thread), os.SCHED_IDLE, os.sched_param(0))


class LateSkiffd(peers.Skiffd):
    """Skiff's target, which runs when nobody else wants to."""

    host = ADDRESS
    port = 3260

    def __init__(self, program, directory, scheme, options):
        super().__init__(program, ("ram:16MiB",), directory)
        self.scheme = scheme
        self._options = options

    def _description(self):
        description = super()._description()
        description[1] += self._options
        return description

    def start(self):
        super().start()
        give_way(self.process.pid)


@contextlib.contextmanager
def late_rping():
    """Its server, which serves one client after the other."""
    command = ["rping", "-s", "-P", "-a", ADDRESS, "-S", str(RPING_BYTES)]
    with serving(command, listens_rdma) as server:
        give_way(server.pid)
        yield


def check_kernel():
    """That there is something to test: a program that does nothing about it waits for ever, sooner or later."""
    for _ in range(CONNECTIONS):
        with late_rping():
            status, said = peers.run_limited(["rping", "-c", "-a", ADDRESS, "-C", "1", "-S", str(RPING_BYTES)], RPING_LIMIT)
        if status is None:
            return
    expect(f"rping hangs; if it never does, the kernel has been mended, and nothing here is needed: {status}, {said}", False)


def check_connects(rping_peer):
    with late_rping():
        for _ in range(CONNECTIONS):
            status, said = peers.run_limited([rping_peer, "connect", f"verbs://{ADDRESS}:{RPING_PORT}", 3], LIMIT)
            expect(f"every round succeeds: {status}, {said}", "ended after 3 rounds: ok" in said)


def check_serves(rping_peer, portal):
    with serving([rping_peer, "serve", portal], listens_rdma) as server:
        give_way(server.pid)
        for _ in range(CONNECTIONS):
            command = ["rping", "-c", "-a", ADDRESS, "-C", "3", "-S", str(RPING_BYTES), "-V", "-v"]
            status, said = peers.run_limited(command, LIMIT)
            rounds = said.count("ping data: ")
            expect(f"rping succeeds: {status}, {said}", rounds == 3 and (status == 0 or RPING_END in said))


def check_logins(skiff, skiffd, scheme, options, suffix):
    with tempfile.TemporaryDirectory(dir="/tmp") as directory, LateSkiffd(skiffd, directory, scheme, options) as target:
        for _ in range(CONNECTIONS):
            status, said = peers.run_limited([skiff, "ls", f"iser://{target.portal}/{target.name}{suffix}"], LIMIT)
            expect(f"the logical unit is listed: {status}, {said}", status == 0 and target.name in said)


def main():
    skiff, skiffd, rping_peer = (os.path.abspath(path) for path in sys.argv[1:4])
    if not PREEMPTION.exists():
        output_of("mount", "-t", "debugfs", "none", "/sys/kernel/debug")
    PREEMPTION.write_text("full\n", encoding="ascii")
    collected = Cases("late_acceptor")
    collected.run("the kernel lets a message lie", check_kernel)
    collected.run("connects by verbs", check_connects, rping_peer)
    for what, portal in SERVED.items():
        collected.run(f"serves by {what}", check_serves, rping_peer, portal)
    collected.run("logins by verbs", check_logins, skiff, skiffd, "verbs", "", "?transport=verbs")
    collected.run("logins by libfabric", check_logins, skiff, skiffd, "libfabric", "?provider=verbs", "?transport=libfabric&provider=verbs")
    return collected.finish()


if __name__ == "__main__":
    sys.exit(main())
