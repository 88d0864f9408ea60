"""Programs that speak iSER in user space, in a guest."""

import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / directory) for directory in ("interop", "linux", "vm")]
import peers  # pylint: disable=wrong-import-position
from kernel import wait_for  # pylint: disable=wrong-import-position
from processes import listens_rdma  # pylint: disable=wrong-import-position


# libiscsi 1.19 takes ImmediateData=Yes, says in a command that data come with it, and does not send them
# (iser_send_command()).
SKIFFD_CONFIGURATION = """
portal: "verbs://{portal}"
negotiation {{ immediate_data: false }}
target {{
  name: "{name}"
  access: OPEN
  {luns}
}}
"""


class IserSkiffd(peers.Skiffd):
    """Skiff's target at the address of the guest's device, for libiscsi; LUNs in the words of its configuration."""

    scheme = "verbs"
    host = os.environ.get("SKIFF_VM_ADDRESS", "")
    port = 3260

    def url(self, lun=None):
        return super().url(lun).replace("iscsi://", "iser://")

    def _description(self):
        path = self.directory / "skiffd.conf"
        luns = "\n  ".join(f"lun {{ {lun} }}" for lun in self.luns)
        path.write_text(SKIFFD_CONFIGURATION.format(portal=self.portal, name=self.name, luns=luns), encoding="ascii")
        return ["--config", path]


def libiscsi_environment(shim):
    """What libiscsi's processes have in theirs."""
    # iscsi_iser_free_pdu() keeps what was read for later, and takes it for longer than it is (iscsi_sfree()).
    return {"LD_PRELOAD": shim, "LIBISCSI_CACHE_ALLOCATIONS": "0"}


class IserTgtd(peers.Tgtd):
    """tgtd with a portal for iSER, at the address of the guest's device."""

    lld = "iser"
    host = os.environ.get("SKIFF_VM_ADDRESS", "")

    def __init__(self, backing_file, directory, initiator_names):
        super().__init__(backing_file, directory, parameters={"MaxRecvDataSegmentLength": 8192})
        # The one for TCP cannot be done without. For siw it must not have the port of iSER's, which is the standard's:
        # the option for another one fails by a value that errno had before (iser_param_parser()).
        self._tcp_port = self.port
        self.port = 3260
        self._initiator_names = initiator_names

    def _portal_options(self):
        # The buffers bound the length of a command; 128 MiB of them are the fewest.
        return ["--iscsi", f"portal=127.0.0.1:{self._tcp_port}", "--iser", "pool_sz_mb=128,buf_sz_kb=1024"]

    def _wait_until_it_listens(self):
        wait_for("tgtd listens for iSER", lambda: listens_rdma(self.process))

    def start(self):
        super().start()
        # Over TCP, an address that may log in is enough; over iSER, the name has to be one that may, too
        # (iser_login_start()).
        for name in self._initiator_names:
            self._admin("--op", "bind", "--mode", "target", "-Q", name)

    def log(self):
        return (self.directory / "tgtd.log").read_text(encoding="utf-8", errors="replace")
