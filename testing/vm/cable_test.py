#!/usr/bin/env python3
"""Two guests with cables between them: RDMA from one to the other, and what happens when a cable is pulled.

Usage: testing/vm/run --hosts 2 --peer-command "testing/vm/cable_test.py serve" -- testing/vm/cable_test.py
"""

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop")]
from cases import Cases  # pylint: disable=wrong-import-position
from processes import expect, wait_for  # pylint: disable=wrong-import-position

SECONDS = 8
# The device, its interface and the name of its variables.
DEVICES = (("rxe0", "eth0", "ROCE"), ("siw0", "eth1", "IWARP"))


def serve():
    """On the second host: rping's persistent servers, until the end."""
    servers = [
        subprocess.Popen(["rping", "-s", "-P", "-a", os.environ[f"SKIFF_VM_{name}_ADDRESS"]])
        for _, _, name in DEVICES
    ]
    for server in servers:
        server.wait()


def succeeds(*command):
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=SECONDS, check=False
    )
    return done.returncode == 0


def rping(name):
    try:
        return succeeds("rping", "-c", "-a", os.environ[f"SKIFF_VM_{name}_PEER"], "-C", "5", "-V")
    except subprocess.TimeoutExpired:
        if name != "IWARP":
            raise
        # There that happens to programs that do nothing about it (docs/transport-verbs-notes.md).
        print(f"rping over {name} hangs")
        return False


def ping(name, *options):
    return succeeds("ping", "-q", "-c", "1", "-W", "1", *options, os.environ[f"SKIFF_VM_{name}_PEER"])


def state(device):
    links = subprocess.run(["rdma", "link"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.search(rf"^link {device}/1 state (\w+)", links, re.MULTILINE).group(1)


def carrier(interface):
    return pathlib.Path(f"/sys/class/net/{interface}/carrier").read_text(encoding="ascii").strip() == "1"


@contextlib.contextmanager
def pulled(*arguments):
    """Without a cable in here."""
    subprocess.run(["skiff-cable", "off", *arguments], check=True)
    try:
        yield
    finally:
        subprocess.run(["skiff-cable", "on", *arguments], check=True)


def check_traffic(name):
    wait_for("rping succeeds", rping, name)
    expect("a frame of the whole MTU arrives", ping(name, "-M", "do", "-s", "8972"))


def check_pulled(device, interface, name, other):
    with pulled(interface):
        wait_for(f"{interface} has no carrier", lambda: not carrier(interface))
        if device == "rxe0":
            wait_for("rxe0 is down", lambda: state(device) == "DOWN")
        else:
            # siw minds its interface being set down, and nothing else: this is not the place to be surprised by that.
            expect("siw0 has not noticed", state(device) == "ACTIVE")
        expect("nothing arrives", not ping(name))
        expect("the other cable is not affected", ping(other))
    wait_for(f"{device} is active", lambda: state(device) == "ACTIVE")
    wait_for("ping succeeds", ping, name)


def check_pulled_at_the_far_end(device, interface, name):
    with pulled("--host", "2", interface):
        expect("nothing arrives", not ping(name))
        expect("the carrier is there", carrier(interface) and state(device) == "ACTIVE")
    wait_for("ping succeeds", ping, name)


@contextlib.contextmanager
def running_rping(name):
    """An rping that goes on, and whose data arrives: see rping()."""
    command = ["rping", "-c", "-v", "-a", os.environ[f"SKIFF_VM_{name}_PEER"]]
    attempts = 3 if name == "IWARP" else 1
    while True:
        attempts -= 1
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as client:
            try:
                os.set_blocking(client.stdout.fileno(), False)
                try:
                    wait_for("data arrives", client.stdout.read, **({"seconds": SECONDS} if attempts else {}))
                except AssertionError:
                    if not attempts:
                        raise
                    print(f"rping over {name} hangs")
                    continue
                yield client
                return
            finally:
                client.kill()


def check_pulled_in_use(interface, name):
    """Without a cable, the rounds of an rping that is running stop, and go on when it is there again."""
    with running_rping(name) as client:
        with pulled("--host", "2", interface):
            time.sleep(0.3)
            client.stdout.read()
            time.sleep(0.5)
            expect("no data arrives", not client.stdout.read())
            expect("the client is still there", client.poll() is None)
        wait_for("data arrives again", client.stdout.read)


def main():
    if sys.argv[1:] == ["serve"]:
        return serve()
    cases = Cases("cable")
    for device, interface, name in DEVICES:
        other = next(name_of for _, _, name_of in DEVICES if name_of != name)
        cases.run(f"{device}/traffic", check_traffic, name)
        cases.run(f"{device}/pulled", check_pulled, device, interface, name, other)
        cases.run(f"{device}/pulled_at_the_far_end", check_pulled_at_the_far_end, device, interface, name)
        cases.run(f"{device}/pulled_in_use", check_pulled_in_use, interface, name)
    return cases.finish()


if __name__ == "__main__":
    sys.exit(main())
