"""A skiffd with two targets under load, and a Prometheus server that scrapes it."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).absolute().parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / folder) for folder in ("interop", "daemon"))]
import peers  # pylint: disable=wrong-import-position

FAST = "iqn.2026-11.com.example:fast"
DISKS = "iqn.2026-11.com.example:disks"
FAILING_LUN = 1  # Of DISKS.
SECONDS = 60
RULES = pathlib.Path("tools/metrics/prometheus/skiff.rules.yml").absolute()

CONFIG = """\
metrics {{ listen: "127.0.0.1:0" }}
portal: "tcp://127.0.0.1:0"
portal: "libfabric://127.0.0.1:0?provider=tcp"
reactors {{ count: 2 }}
target {{ name: "{fast}" lun {{ ram {{ size: "256MiB" }} }} lun {{ ram {{ size: "64MiB" }} }} }}
target {{ name: "{disks}"
  lun {{ file {{ path: "{directory}/disk" size: "64MiB" }} }}
  lun {{ file {{ path: "{directory}/failing" size: "1MiB" }} }}
}}
"""
SCRAPE = """\
global: {{ scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: skiff
    static_configs: [{{ targets: ["{address}"] }}]
"""


class Skiffd:
    """Serves FAST and DISKS over TCP and, emulated, over RDMA."""

    def __init__(self, program, directory):
        config = pathlib.Path(directory, "skiffd.conf")
        config.write_text(CONFIG.format(fast=FAST, disks=DISKS, directory=directory), encoding="utf-8")
        self._failing = pathlib.Path(directory, "failing")
        self._log = pathlib.Path(directory, "skiffd.log")
        with open(self._log, "wb") as log:
            self.process = peers.spawn([program, "--config", config], stdout=subprocess.PIPE, stderr=log, text=True)
        line = self.process.stdout.readline()
        self.metrics = re.search(r"metrics=http://(\S+)/metrics", line)
        if self.metrics is None:
            raise peers.PeerError(f"skiffd is not ready: {self._log.read_text(encoding='utf-8')}")
        self.metrics = self.metrics[1]
        self.tcp, self.rdma = re.findall(r"portal=\w+://([\d.]+:\d+)", line)

    def url(self, target, lun):
        return f"iscsi://{self.tcp}/{target}/{lun}"

    def rdma_url(self, target, lun):
        return f"iser://{self.rdma}/{target}/{lun}?transport=libfabric&provider=tcp"

    def break_disk(self):
        """Reads of FAILING_LUN fail from now on."""
        os.truncate(self._failing, 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        peers.stop(self.process)


class Prometheus:
    """Debian's server, which keeps what it scrapes in the directory."""

    def __init__(self, address, directory):
        port = peers.free_port()
        config = pathlib.Path(directory, "prometheus.yml")
        config.write_text(SCRAPE.format(address=address, rules=RULES), encoding="utf-8")
        self.url = f"http://127.0.0.1:{port}"
        self._log = pathlib.Path(directory, "prometheus.log")
        with open(self._log, "wb") as log:
            self.process = peers.spawn(
                [peers.find_program("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={directory}/tsdb",
                 f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"], stdout=log, stderr=log)
        peers.wait_for_port(port, self.process, "prometheus")
        self.wait_for('up{job="skiff"} == 1', "a scrape of skiffd")

    def ask(self, path, **parameters):
        """What its HTTP API answers."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=SECONDS) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise peers.PeerError(f"prometheus: {path} {parameters}: {error.read().decode()}") from error

    def now(self, query):
        """[(labels, value)] of an expression."""
        return [(sample["metric"], float(sample["value"][1])) for sample in self.ask("query", query=query)["result"]]

    def over_time(self, query, begin, end, step=1):
        """[(labels, [(time, value)])] of an expression."""
        found = self.ask("query_range", query=query, start=begin, end=end, step=step)["result"]
        return [(series["metric"], [(when, float(value)) for when, value in series["values"]]) for series in found]

    def wait_for(self, query, what):
        """Until an expression has a sample."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(peers.PeerError, urllib.error.URLError):
                if self.now(query):
                    return
            time.sleep(0.1)
        raise peers.PeerError(f"prometheus has not seen {what} in {SECONDS} s: {self._log.read_text(encoding='utf-8')}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        peers.stop(self.process)


class Load:
    """What initiators do for so many seconds, all at once; and what goes wrong meanwhile."""

    def __init__(self, skiff, skiffd, seconds):
        self._skiff = skiff
        self._skiffd = skiffd
        runtime = f"--runtime={seconds}s"
        perf = ((skiffd.url(FAST, 0), "reader", "--rw=randread", "--bs=4k", "--iodepth=8"),
                (skiffd.url(DISKS, 0), "writer", "--rw=randwrite", "--bs=64k", "--iodepth=2"),
                (skiffd.rdma_url(FAST, 1), "rdma", "--rw=randrw", "--bs=256k", "--iodepth=2"))
        self._loads = [peers.spawn([skiff, "perf", url, f"--initiator-name=iqn.2026-11.com.example:{name}", runtime, *flags],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for url, name, *flags in perf]

    def fail(self):
        """A disk fails, and an initiator asks for a target that is not there."""
        self._skiffd.break_disk()
        for url in (self._skiffd.url(DISKS, FAILING_LUN), self._skiffd.url("iqn.2026-11.com.example:nothing", 0)):
            done = subprocess.run([self._skiff, "read", url, "--length", "4096", "-q"], timeout=SECONDS, check=False,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if done.returncode == 0:
                raise peers.PeerError(f"skiff read {url} works")

    def wait(self):
        for process in self._loads:
            output, _ = process.communicate(timeout=SECONDS)
            if process.returncode != 0:
                raise peers.PeerError(f"{' '.join(process.args)}: exit status {process.returncode}\n{output}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self._loads:
            peers.stop(process)
