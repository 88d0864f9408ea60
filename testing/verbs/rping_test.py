#!/usr/bin/env python3
"""rping, which knows nothing of Skiff, as the peer of the verbs transport, in both roles.

Usage, in a guest: rping_test.py RPING_PEER
"""

import os
import pathlib
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "vm"), str(HERE.parent / "interop")]
from cases import Cases  # pylint: disable=wrong-import-position
from processes import Heard, connect, expect, listens_rdma, serving  # pylint: disable=wrong-import-position

PEER = os.path.abspath(sys.argv[1])
PORT = 7174
ROUNDS = 20
# Of our client's data; rping's server has to be told.
BYTES = 100
DEVICES = {
    "rxe0": ("192.168.77.1", "fd00:77::1"),
    "siw0": ("192.168.78.1", "fd00:78::1"),
}


def url(address):
    return f"verbs://[{address}]:{PORT}" if ":" in address else f"verbs://{address}:{PORT}"


def rping(role, address, *options):
    return ["rping", role, "-a", address, "-p", str(PORT), *options]


def check_we_connect(device, address):
    with serving(rping("-s", address, "-S", str(BYTES)), listens_rdma) as server:
        output = connect([PEER, "connect", url(address), str(ROUNDS)])
        expect(f"{device} carries it: {output}", f"connected by {device} port 1" in output)
        expect(f"every round succeeds: {output}", f"ended after {ROUNDS} rounds: ok" in output)
        expect("rping ends well, too", server.wait(timeout=20) == 0)


def check_we_serve(address, size):
    with serving([PEER, "serve", url(address)], listens_rdma) as server:
        heard = Heard(server)
        # It compares the data.
        connect(rping("-c", address, "-C", str(ROUNDS), "-S", str(size), "-V"))
        heard.wait_for(rf"a client at \S+\nended after {ROUNDS} rounds: ok\n")


def check_client_killed(address):
    """A peer that is killed at any time costs its own connection only."""
    with serving([PEER, "serve", url(address)], listens_rdma) as server:
        heard = Heard(server)
        for _ in range(3):
            heard.forget()
            with subprocess.Popen(rping("-c", address, "-v"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as client:
                client.stdout.readline()
                client.send_signal(signal.SIGKILL)
            heard.wait_for(r"ended after \d+ rounds: ")
        connect(rping("-c", address, "-C", str(ROUNDS), "-V"))
        heard.wait_for(f"ended after {ROUNDS} rounds: ok")


def check_server_killed(address):
    with serving(rping("-s", address, "-S", str(BYTES)), listens_rdma) as server:
        with subprocess.Popen([PEER, "connect", url(address)], stdout=subprocess.PIPE, text=True) as client:
            heard = Heard(client)
            heard.wait_for(r"round 10\b")
            server.kill()
            heard.wait_for(r"ended after \d+ rounds: UNAVAILABLE: \S")
            expect("the client ends with an error", client.wait(timeout=20) == 1)


def check_nobody_listens(address):
    done = subprocess.run([PEER, "connect", url(address), "1"], stdout=subprocess.PIPE, text=True, timeout=30, check=False)
    expect(f"it is told who refused: {done.stdout}", done.returncode == 1 and address in done.stdout)


def main():
    cases = Cases("rping")
    for device, addresses in DEVICES.items():
        for address in addresses:
            cases.run(f"{device}/we_connect/{address}", check_we_connect, device, address)
            cases.run(f"{device}/we_serve/{address}", check_we_serve, address, BYTES)
        cases.run(f"{device}/we_serve_big_data", check_we_serve, addresses[0], 60000)
        cases.run(f"{device}/client_killed", check_client_killed, addresses[0])
        cases.run(f"{device}/server_killed", check_server_killed, addresses[0])
        cases.run(f"{device}/nobody_listens", check_nobody_listens, addresses[0])
    return cases.finish()


if __name__ == "__main__":
    sys.exit(main())
