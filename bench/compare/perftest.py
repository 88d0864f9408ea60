"""perftest's programs, both ends on one device of the virtual machine."""

import re
import subprocess
import time

from runner import Failure

PORT = 18515
SECONDS = 120
# What the connection manager of InfiniBand says when nobody listens (IB_CM_REJ_INVALID_SERVICE_ID).
NOBODY_LISTENS = "RDMA_CM_EVENT_REJECTED; error: 8"
ATTEMPTS = 5


def run_perftest(work, device, address, *, depth, iterations, cores, options=()):
    """The median latency in microseconds, or the operations a second. `work`: (operation, mode, size)."""
    operation, mode, size = work
    tool = f"ib_{operation}_{'lat' if mode == 'latency' else 'bw'}"
    command = [tool, f"--ib-dev={device}", "--rdma_cm", f"--port={PORT}", f"--iters={iterations}", f"--size={size}",
               "--CPU-freq", *options]
    if mode == "rate":
        command.append(f"--tx-depth={depth}")
    with subprocess.Popen(["taskset", "-c", str(cores[0]), *command], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT) as server:
        try:
            _wait_for_listener(server)
            output = _connect(["taskset", "-c", str(cores[1]), *command, address])
        finally:
            server.terminate()
    # "64 1000 ...": latency has the median in the fifth column. Bandwidth has MiB/s in the fourth, with two digits
    # behind the point, and the million messages a second in the fifth, with six.
    for line in output.splitlines():
        columns = line.split()
        if columns[:2] == [str(size), str(iterations)]:
            if mode == "rate":
                return float(columns[3]) * (1 << 20) / size if size >= 65536 else float(columns[4]) * 1e6
            return float(columns[4])
    raise Failure(f"{tool}: no result in\n{output}")


def _connect(command):
    """What the client prints. The kernel lists a listener some time before it is one, and the client does not wait."""
    for attempt in range(ATTEMPTS):
        try:
            return _run(command)
        except Failure as failure:
            if NOBODY_LISTENS not in str(failure) or attempt == ATTEMPTS - 1:
                raise
            time.sleep(0.1)
    raise AssertionError("not reached")


def _run(command):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise Failure(f"{' '.join(command)}: no end") from None
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)}: status {done.returncode}\n{done.stderr}{done.stdout}")
    return done.stdout


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
