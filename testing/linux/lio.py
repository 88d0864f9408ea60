"""Linux's own iSCSI target, LIO, in a guest, set up through configfs."""

import pathlib

from kernel import run

CONFIG = pathlib.Path("/sys/kernel/config/target")
MODULES = ["target_core_mod", "target_core_file", "target_core_iblock", "iscsi_target_mod", "ib_isert"]
PAGE_BYTES = 4096


def _write(path, value):
    path.write_text(f"{value}\n", encoding="ascii")


def _write_credentials(directory, user, own):
    """Names and secrets end where the text does. LIO takes "NULL" for none."""
    names = ("userid", "password", "userid_mutual", "password_mutual")
    for name, value in zip(names, (*user, *(own or ("NULL", "NULL")))):
        (directory / name).write_text(value, encoding="ascii")


def _make_in_another_network(portal, address):
    """Makes a portal that leaves its port free here.

    LIO's portal for iSER has one for TCP beside it, at the same address and port (lio_target_np_iser_store()), and siw
    listens with a socket of TCP's own, for which that port would be taken. But LIO listens for TCP in the network
    namespace of the process that makes the directory (iscsit_setup_np()), and for iSER in the first one always
    (isert_setup_id()). The namespace stays as long as the socket in it.
    """
    run("unshare", "--net", "bash", "-ec", 'ip link set lo up; ip address add "$0" dev lo; mkdir "$1"', address, portal)


class Lio:
    """One target at one portal, with a disk in memory as LUN 0; perhaps one in a file as LUN 1; perhaps a device as 2.

    With `tcp_apart`, nobody reaches it over TCP, and it can listen for iSER on siw.
    """

    def __init__(self, name, address, iser, ram_bytes, file_path=None, file_bytes=0, device=None, port=3260,
                 tcp_apart=False):
        run("modprobe", "--all", *MODULES)
        self.name = name
        self.portal = f"{address}:{port}"
        self._group = CONFIG / "iscsi" / name / "tpgt_1"
        self._group.mkdir(parents=True)
        self._add_disk(0, "rd_mcp_0", "ram", f"rd_pages={ram_bytes // PAGE_BYTES}")
        if file_path is not None:
            self._add_disk(1, "fileio_0", "file", f"fd_dev_name={file_path},fd_dev_size={file_bytes}")
        if device is not None:
            self._add_disk(2, "iblock_0", "device", f"udev_path={device}")
        portal = self._group / "np" / self.portal
        if tcp_apart:
            _make_in_another_network(portal, address)
        else:
            portal.mkdir()
        if iser:
            _write(portal / "iser", 1)
        for attribute, value in {
            "authentication": 0, "generate_node_acls": 1, "demo_mode_write_protect": 0, "cache_dynamic_acls": 1,
        }.items():
            _write(self._group / "attrib" / attribute, value)
        self.enable(True)

    def _add_disk(self, lun, adapter, disk, control):
        core = CONFIG / "core" / adapter / disk
        core.mkdir(parents=True)
        _write(core / "control", control)
        _write(core / "enable", 1)
        unit = self._group / "lun" / f"lun_{lun}"
        unit.mkdir()
        (unit / disk).symlink_to(core)

    def enable(self, enabled):
        """Disabled, it ends its sessions and takes no others."""
        _write(self._group / "enable", int(enabled))

    def set(self, key, value):
        """A parameter that it negotiates with from the next login on."""
        _write(self._group / "param" / key, value)

    def authenticate(self, user, own=None):
        """Lets in, from the next login on, whoever has this name and this secret; and shows its own, if there are some."""
        _write(self._group / "attrib" / "authentication", 1)
        _write_credentials(self._group / "auth", user, own)
        discovery = CONFIG / "iscsi" / "discovery_auth"
        _write_credentials(discovery, user, own)
        _write(discovery / "enforce_discovery_auth", 1)

    def sessions(self):
        """The initiators that are logged in."""
        text = (self._group / "dynamic_sessions").read_text(encoding="ascii")
        return [name for name in text.replace("\0", "\n").split("\n") if name]
