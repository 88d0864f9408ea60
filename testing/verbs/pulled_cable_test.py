#!/usr/bin/env python3
"""A cable that is pulled while Skiff reads from another host, which runs rping.

Usage: testing/vm/run --hosts 2 --peer-command "pulled_cable_test.py clients" -- pulled_cable_test.py RPING_PEER
"""

import contextlib
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "vm"), str(HERE.parent / "interop")]
from cable_test import DEVICES, pulled  # pylint: disable=wrong-import-position
from cases import Cases  # pylint: disable=wrong-import-position
from processes import Heard, listens_rdma, output_of, serving  # pylint: disable=wrong-import-position

PORT = 7174
# Of iWARP's TCP, before it gives the peer up: ten seconds or so.
TCP_RETRIES = 5
# InfiniBand's retries take two seconds; everything takes longer in an emulator.
SECONDS_TO_NOTICE = 60
# Two emulated machines share the cores of this one with whatever else it does.
SECONDS_TO_BEGIN = 120
# A file for each client that the second host is to start, with the address to connect to.
EXCHANGE = pathlib.Path(os.environ["SKIFF_VM_SHARED"])


def clients():
    """On the second host: starts what the first one wants, until the end."""
    started = set()
    while True:
        for path in EXCHANGE.glob("*.client"):
            if path.name not in started:
                started.add(path.name)
                subprocess.Popen(
                    ["rping", "-c", "-a", path.read_text(encoding="utf-8"), "-p", str(PORT)], stdout=subprocess.DEVNULL
                )
        time.sleep(0.1)


def await_client(heard, name):
    """Has a client started, and waits until it is read from."""
    path = EXCHANGE / str(time.monotonic_ns())
    path.write_text(os.environ[f"SKIFF_VM_{name}_ADDRESS"], encoding="utf-8")
    path.rename(path.with_suffix(".client"))
    heard.wait_for(r"a client at .*\n(.*\n)*round 50\n", SECONDS_TO_BEGIN)


@contextlib.contextmanager
def reader(program, name):
    """A server that reads from a client, and what it says."""
    command = [program, "read", f"verbs://{os.environ[f'SKIFF_VM_{name}_ADDRESS']}:{PORT}"]
    with serving(command, listens_rdma) as process:
        heard = Heard(process)
        await_client(heard, name)
        yield heard


def check_short(program, interface, name):
    """It is plugged in again before anybody gave up: nothing is lost."""
    with reader(program, name) as heard:
        with pulled("--host", "2", interface):
            time.sleep(0.3)
            heard.forget()
            time.sleep(0.4)
            if heard.says("round"):
                raise AssertionError(f"data arrives without a cable: {heard.text!r}")
        heard.wait_for(r"round \d+\n(.*\n)*round \d+\n")
        if heard.says("ended"):
            raise AssertionError(f"the connection ended: {heard.text!r}")


def check_long(program, interface, name, other):
    """What is under way fails, other connections do not, and the next client is served."""
    with reader(program, name) as heard, reader(program, other) as unaffected:
        with pulled("--host", "2", interface):
            heard.wait_for(r"ended after \d+ rounds: UNAVAILABLE: .*; operation 2 status \d+ code \d+", SECONDS_TO_NOTICE)
            print(heard.text.strip().splitlines()[-1])
            unaffected.forget()
            unaffected.wait_for(r"round \d+\n")
        heard.forget()
        await_client(heard, name)
        if unaffected.says("ended"):
            raise AssertionError(f"the other connection ended: {unaffected.text!r}")


def main():
    if sys.argv[1:] == ["clients"]:
        return clients()
    program = os.path.abspath(sys.argv[1])
    output_of("sysctl", "-w", f"net.ipv4.tcp_retries2={TCP_RETRIES}")
    cases = Cases("pulled_cable")
    for device, interface, name in DEVICES:
        other = next(name_of for _, _, name_of in DEVICES if name_of != name)
        cases.run(f"{device}/short", check_short, program, interface, name)
        cases.run(f"{device}/long", check_long, program, interface, name, other)
    return cases.finish()


if __name__ == "__main__":
    sys.exit(main())
