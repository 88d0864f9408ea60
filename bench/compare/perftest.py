"""perftest's programs, both ends on one device of the virtual machine."""

import re
import signal
import subprocess
import time

from runner import Failure

PORT = 18515
SECONDS = 120
# What the connection manager of InfiniBand says when nobody listens (IB_CM_REJ_INVALID_SERVICE_ID).
NOBODY_LISTENS = "RDMA_CM_EVENT_REJECTED; error: 8"
ATTEMPTS = 5


class _Crashed(Failure):
    """A program of perftest's died of a signal: at times in librdmacm, while its client connects."""


def run_perftest(work, device, address, *, depth, iterations, cores, options=()):
    """The median latency in microseconds, or the operations a second. `work`: (operation, mode, size)."""
    operation, mode, size = work
    tool = f"ib_{operation}_{'lat' if mode == 'latency' else 'bw'}"
    command = [tool, f"--ib-dev={device}", "--rdma_cm", f"--port={PORT}", f"--iters={iterations}", f"--size={size}",
               "--CPU-freq", *options]
    if mode == "rate":
        command.append(f"--tx-depth={depth}")
    for attempt in range(ATTEMPTS):
        try:
            output = _run_both(command, address, cores)
            break
        except _Crashed as crashed:
            if attempt == ATTEMPTS - 1:
                raise
            print(f"     {crashed}: once more", flush=True)
    # "64 1000 ...": latency has the median in the fifth column. Bandwidth has MiB/s in the fourth, with two digits
    # behind the point, and the million messages a second in the fifth, with six.
    for line in output.splitlines():
        columns = line.split()
        if columns[:2] == [str(size), str(iterations)]:
            if mode == "rate":
                return float(columns[3]) * (1 << 20) / size if size >= 65536 else float(columns[4]) * 1e6
            return float(columns[4])
    raise Failure(f"{tool}: no result in\n{output}")


def _run_both(command, address, cores):
    """What the client prints."""
    with subprocess.Popen(["taskset", "-c", str(cores[0]), *command], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT) as server:
        try:
            _wait_for_listener(server)
            return _connect(["taskset", "-c", str(cores[1]), *command, address], server)
        finally:
            server.terminate()


def _connect(command, server):
    """What the client prints. The kernel lists a listener some time before it is one, and the client does not wait."""
    for attempt in range(ATTEMPTS):
        try:
            return _run(command, server)
        except Failure as failure:
            if NOBODY_LISTENS not in str(failure) or attempt == ATTEMPTS - 1:
                raise
            time.sleep(0.1)
    raise AssertionError("not reached")


def _run(command, server):
    deadline = time.monotonic() + SECONDS
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as client:
        try:
            while True:
                try:
                    output, errors = client.communicate(timeout=1)
                    break
                except subprocess.TimeoutExpired:
                    if (server.poll() or 0) < 0:
                        raise _Crashed(f"{command[3]}'s server: signal {-server.returncode}") from None
                    if time.monotonic() > deadline:
                        raise Failure(f"{' '.join(command)}: no end") from None
        finally:
            client.kill()
    if client.returncode == -signal.SIGSEGV:
        # Refused by the second listener of a server that it had reached already (testing/vm/devices_test.py).
        raise _Crashed(f"{command[3]}'s client: signal {-client.returncode}")
    if client.returncode != 0:
        raise Failure(f"{' '.join(command)}: status {client.returncode}\n{errors}{output}")
    return output


def _wait_for_listener(server):
    """perftest with rdma_cm listens on no socket, so the kernel's list of RDMA connections is asked."""
    for _ in range(200):
        if server.poll() is not None:
            raise Failure("perftest's server has ended")
        listed = subprocess.run(["rdma", "resource", "show", "cm_id"], stdin=subprocess.DEVNULL, capture_output=True,
                                text=True, check=False).stdout
        if re.search(rf":{PORT}\b.*LISTEN|LISTEN.*:{PORT}\b", listed):
            return
        time.sleep(0.05)
    raise Failure("perftest's server does not listen")
