#!/usr/bin/env python3
"""The devices of a guest, used by programs that are not ours: do the devices work at all?

Usage: testing/vm/run -- testing/vm/devices_test.py
"""

import pathlib
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
from cases import Cases  # pylint: disable=wrong-import-position

SECONDS = 30
DEVICES = {
    "rxe0": {"transport": "InfiniBand", "addresses": ("192.168.77.1", "fd00:77::1")},
    "siw0": {"transport": "iWARP", "addresses": ("192.168.78.1", "fd00:78::1")},
}
PERFTEST = ("ib_send_lat", "ib_write_lat", "ib_read_lat", "ib_send_bw", "ib_write_bw", "ib_read_bw")
FI_PINGPONG_PORT = 47592
# Nobody listens: the reasons of InfiniBand's CM (invalid service ID) and of TCP (connection refused).
NOBODY_LISTENS = re.compile(r"REJECTED[,;] error:? (8|-111)\b")


def output_of(*command):
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit status {done.returncode}: {done.stdout.strip()}")
    return done.stdout


def listens_rdma(process):
    return re.search(rf"state LISTEN .*pid {process.pid} ", output_of("rdma", "resource", "show", "cm_id"))


def listens_tcp(_):
    return output_of("ss", "-Htln", f"sport = {FI_PINGPONG_PORT}").strip()


def connect(client, deadline):
    """The kernel shows a listener a moment before connections reach it."""
    while True:
        try:
            return output_of(*client)
        except AssertionError as error:
            if not NOBODY_LISTENS.search(str(error)) or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def serve_and_connect(server, client, listens):
    """Runs a server, and a client as soon as it listens. The client's output; both have to succeed."""
    with subprocess.Popen(
        server, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            deadline = time.monotonic() + SECONDS
            while not listens(process):
                if process.poll() is not None or time.monotonic() > deadline:
                    process.kill()
                    raise AssertionError(f"{' '.join(server)} does not listen: {process.communicate()[0].strip()}")
                time.sleep(0.05)
            result = connect(client, deadline)
            messages, _ = process.communicate(timeout=SECONDS)
            if process.returncode != 0:
                raise AssertionError(f"{' '.join(server)}: exit status {process.returncode}: {messages.strip()}")
            return result
        finally:
            process.kill()


def check_attributes(device, transport):
    attributes = dict(re.findall(r"^\s*(\w+):\s+(\S+)", output_of("ibv_devinfo", "--ib-dev", device), re.MULTILINE))
    expected = {"transport": transport, "state": "PORT_ACTIVE", "active_mtu": "4096"}
    found = {name: attributes.get(name) for name in expected}
    if found != expected:
        raise AssertionError(f"{device} has {found} instead of {expected}")


def check_locked_memory():
    limit = output_of("bash", "-c", "ulimit -l").strip()
    if limit != "unlimited":
        raise AssertionError(f"locked memory is limited to {limit} KiB")


def check_rping(address):
    # Ten rounds of sends, writes and reads, whose data it verifies.
    arguments = ["-a", address, "-C", "10", "-V"]
    serve_and_connect(["rping", "-s", *arguments], ["rping", "-c", *arguments], listens_rdma)


def check_perftest(tool, device, address):
    command = [tool, "--ib-dev", device, "--rdma_cm", "--iters", "200", "--size", "4096", "--CPU-freq"]
    output = serve_and_connect(command, [*command, address], listens_rdma)
    if not re.search(r"^\s*4096\s+200\s+[0-9.]*[1-9]", output, re.MULTILINE):
        raise AssertionError(f"{tool} reports no result: {output.strip()}")


def check_fi_pingpong(device, address):
    command = ["fi_pingpong", "-p", "verbs", "-e", "msg", "-d", device, "-I", "100", "-S", "1024", "-c"]
    output = serve_and_connect(command, [*command, address], listens_tcp)
    if not re.search(r"^1k\s+100\s", output, re.MULTILINE):
        raise AssertionError(f"fi_pingpong reports no result: {output.strip()}")


def main():
    cases = Cases("devices")
    cases.run("locked_memory", check_locked_memory)
    for device, expected in DEVICES.items():
        cases.run(f"{device}/attributes", check_attributes, device, expected["transport"])
        for address in expected["addresses"]:
            cases.run(f"{device}/rping/{address}", check_rping, address)
        for tool in PERFTEST:
            cases.run(f"{device}/{tool}", check_perftest, tool, device, expected["addresses"][0])
        cases.run(f"{device}/fi_pingpong", check_fi_pingpong, device, expected["addresses"][0])
    return cases.finish()


if __name__ == "__main__":
    sys.exit(main())
