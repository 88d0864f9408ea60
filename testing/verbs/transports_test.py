#!/usr/bin/env python3
"""What `skiff transports` says of RDMA devices is what the kernel says of them.

Usage, in a guest: transports_test.py SKIFF
"""

import contextlib
import ipaddress
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "vm"), str(HERE.parent / "interop")]
from cases import Cases  # pylint: disable=wrong-import-position
from processes import expect, output_of, wait_for  # pylint: disable=wrong-import-position

SKIFF = os.path.abspath(sys.argv[1])
# The device's interface, and what its connection manager and its kind of RDMA give (rdma_connect(3), RFC 5040 section
# 5.2.1).
DEVICES = {
    "rxe0": {
        "interface": "eth0", "type": "rxe", "kind": "RoCE",
        "max_private_data_bytes": 56, "send_with_invalidate": True, "memory_windows": True,
        "receiver_not_ready_retry": True, "read_sink_needs_remote_write": False, "deregistration_ends_access": True,
    },
    "siw0": {
        "interface": "eth1", "type": "siw", "kind": "iWARP", "max_read_sges": 1,
        "max_private_data_bytes": 251, "send_with_invalidate": False, "memory_windows": False,
        "receiver_not_ready_retry": False, "read_sink_needs_remote_write": True, "deregistration_ends_access": True,
    },
}
NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"


def verbs_rows():
    """By name."""
    report = json.loads(output_of(SKIFF, "transports", "--json"))
    expect("verbs comes first", report["transports"][0]["scheme"] == "verbs")
    return {row["name"]: row for row in report["transports"][0]["devices"]}


def same(what, found, wanted):
    expect(f"{what} is {wanted}, not {found}", found == wanted)


def kernel_gids(device):
    """In the long form, without the empty places of the table."""
    folder = pathlib.Path(f"/sys/class/infiniband/{device}/ports/1/gids")
    texts = [path.read_text(encoding="ascii").strip() for path in folder.iterdir()]
    return sorted(text for text in texts if text != NO_GID)


def long_form(gid):
    return ipaddress.IPv6Address(gid).exploded


def interface_addresses(interface):
    shown = json.loads(output_of("ip", "-json", "address", "show", interface))[0]["addr_info"]
    return sorted(entry["local"] for entry in shown)


def check_addresses(device, wanted, found):
    """For RoCE the GIDs; an iWARP device's is no address, so those of its interface."""
    if wanted["kind"] == "RoCE":
        same("the GIDs", sorted(map(long_form, found)), kernel_gids(device))
    else:
        same("the addresses", sorted(text.split("%")[0] for text in found), interface_addresses(wanted["interface"]))


def check_facts(device, wanted):
    row = verbs_rows()[f"{device} port 1"]
    verbs = dict(re.findall(r"^\s*(\w+):\s+(\S+)", output_of("ibv_devinfo", "-v", "--ib-dev", device), re.MULTILINE))
    same("usable", row["usable"], True)
    same("emulated", row["emulated"], False)
    same("kind", row["kind"], wanted["kind"])
    same("link", row["link"], "up")
    same("mtu", row["mtu"], int(verbs["active_mtu"]))
    check_addresses(device, wanted, row["addresses"])
    found = row["capabilities"]
    for name, value in wanted.items():
        if name in found:
            same(name, found[name], value)
    limits = {
        "max_message_bytes": int(verbs["max_msg_sz"], 16),
        "max_send_sges": int(verbs["max_sge"]),
        "max_receive_sges": int(verbs["max_sge"]),
        "max_send_queue": min(int(verbs["max_qp_wr"]), int(verbs["max_cqe"])),
        "max_read_depth": min(int(verbs["max_qp_rd_atom"]), 254),
        "remote_key_bits": 32,
        "shared_receive_queue": int(verbs["max_srq"]) > 0,
    }
    for name, value in limits.items():
        same(name, found[name], value)


def check_table():
    table = output_of(SKIFF, "transports")
    for device, wanted in DEVICES.items():
        expect(f"{device} has a row:\n{table}", re.search(
            rf"^verbs +{device} port 1 +yes +{wanted['kind']} +up +4096 +\S", table, re.MULTILINE))
        expect(f"{device} has limits:\n{table}", re.search(
            rf"^verbs +{device} port 1 +[\d.]+ \w+ +\d+ +\d+/\d+/\d+ ", table, re.MULTILINE))
    for module in ("ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm", "rdma_rxe", "siw"):
        expect(f"{module} is there:\n{table}", re.search(rf"^{module} +loaded ", table, re.MULTILINE))
    expect(f"locked memory is not limited:\n{table}", re.search(r"^locked memory +unlimited", table, re.MULTILINE))


@contextlib.contextmanager
def down(interface):
    output_of("ip", "link", "set", interface, "down")
    try:
        yield
    finally:
        output_of("ip", "link", "set", interface, "up")


def check_link_down(device, wanted):
    name = f"{device} port 1"
    with down(wanted["interface"]):
        wait_for(f"{name} is reported down", lambda: not verbs_rows()[name]["usable"])
        row = verbs_rows()[name]
        expect(f"the link says so: {row['link']}", row["link"] == "down")
        expect(f"the problem says what to do: {row['problem']}", re.search(
            r"the link is down; .*ip link set DEV up", row["problem"]))
        others = [other["usable"] for other_name, other in verbs_rows().items() if other_name != name]
        expect("the other device is not affected", others == [True])
    wait_for(f"{name} is usable again", lambda: verbs_rows()[name]["usable"])


def check_no_connection_manager():
    output_of("modprobe", "-r", "rdma_ucm")
    try:
        for row in verbs_rows().values():
            expect(f"it is missed: {row}", not row["usable"] and "modprobe rdma_ucm" in row["problem"])
    finally:
        output_of("modprobe", "rdma_ucm")
    expect("all is well again", all(row["usable"] for row in verbs_rows().values()))


def check_little_locked_memory():
    """A limit that a process without privileges has is named, with what to do."""
    text = output_of(
        "setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", "prlimit", "--memlock=65536:65536", SKIFF, "transports",
    )
    expect(f"64 KiB are too little:\n{text}", re.search(r"^  locked memory: .*ulimit -l", text, re.MULTILINE))


def check_no_device():
    for device in DEVICES:
        output_of("rdma", "link", "delete", device)
    rows = verbs_rows()
    same("the names", list(rows), ["verbs"])
    expect(f"how to make one is said: {rows}", "rdma link add rxe0 type rxe" in rows["verbs"]["problem"])
    done = subprocess.run([SKIFF, "transports"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
    same("the errors", done.stderr, "")
    for device, wanted in DEVICES.items():
        output_of("rdma", "link", "add", device, "type", wanted["type"], "netdev", wanted["interface"])
    wait_for("they are back", lambda: all(row["usable"] for row in verbs_rows().values()))


def main():
    cases = Cases("transports")
    for device, wanted in DEVICES.items():
        cases.run(f"{device}/facts", check_facts, device, wanted)
        cases.run(f"{device}/link_down", check_link_down, device, wanted)
    cases.run("table", check_table)
    cases.run("little_locked_memory", check_little_locked_memory)
    cases.run("no_connection_manager", check_no_connection_manager)
    cases.run("no_device", check_no_device)
    return cases.finish()


if __name__ == "__main__":
    sys.exit(main())
