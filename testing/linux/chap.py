"""CHAP in both directions: Linux's initiator with skiffd, and skiff with Linux's target."""

import re
import subprocess

import peers
from kernel import Failure, KernelLog, Session, expect, run

# As open-iscsi calls them, and as Skiff does.
ALGORITHMS = {"MD5": "MD5", "SHA1": "SHA1", "SHA256": "SHA-256", "SHA3-256": "SHA3-256"}
INITIATOR = ("initiator", "the initiator's own secret")
TARGET = ("target", "what the target knows")
WRONG_SECRET = "not what either of them knows"
SECONDS = 60
LOGIN_ATTEMPTS = 5
LOGIN_REFUSED = 3  # skiff's exit status.


class ChapSkiffd(peers.ChapSkiffd):
    """At an address of the guest's."""

    port = 3261

    def __init__(self, program, scheme, address, directory, name):
        super().__init__(program, directory, INITIATOR, TARGET)
        self.scheme = scheme
        self.host = address
        self.name = name


class InitiatorCases:
    """Linux's initiator with skiffd."""

    def __init__(self, target, interface):
        self._target = target
        self._session = Session(interface, target.portal, target.name)

    def discovery(self, mutual):
        # open-iscsi lets nobody choose the algorithm of a discovery session.
        self._session.discover_with("discovery.sendtargets.auth", self._settings(mutual, INITIATOR[1], TARGET[1]))

    @staticmethod
    def _settings(mutual, secret, target_secret):
        """In open-iscsi's words; an empty value is none."""
        return {
            "authmethod": "CHAP", "username": INITIATOR[0], "password": secret,
            "username_in": TARGET[0] if mutual else "", "password_in": target_secret if mutual else "",
        }

    def login(self, algorithm, mutual=False, secret=INITIATOR[1], target_secret=TARGET[1]):
        for name, value in {"chap_algs": algorithm, **self._settings(mutual, secret, target_secret)}.items():
            self._session.set(f"node.session.auth.{name}", value)
        self._log_in()
        try:
            # Something goes over it.
            run("dd", f"if={self._session.disk(0).device}", "of=/dev/null", "bs=64k", "count=4", "iflag=direct")
        finally:
            self._session.logout()

    def _log_in(self):
        """Again, where ib_iser refuses to send as its last request is not done with (docs/interoperability.md)."""
        self._session.set("node.session.initial_login_retry_max", 1)
        for attempt in range(1, LOGIN_ATTEMPTS + 1):
            log = KernelLog()
            try:
                self._session.login()
                return
            except Failure:
                if attempt == LOGIN_ATTEMPTS or not log.matching("Login/Text in progress"):
                    raise

    def refused(self, message, secret, target_secret):
        """open-iscsi says why a login fails."""
        try:
            self.login("SHA256", True, secret, target_secret)
        except Failure as failure:
            expect(f"'{message}' is why: {failure}", message in str(failure))
        else:
            raise Failure("it is let in")

    def run(self, collected):
        collected.run("CHAP in discovery: one-way", self.discovery, False)
        collected.run("CHAP in discovery: mutual", self.discovery, True)
        collected.run("CHAP: one-way", self.login, "SHA256")
        for algorithm, name in ALGORITHMS.items():
            collected.run(f"CHAP: mutual, {name}", self.login, algorithm, True)
        collected.run("CHAP: wrong secret of the initiator", self.refused, "authorization failure", WRONG_SECRET, TARGET[1])
        # For the daemon, which says no more, it is the target that fails.
        collected.run("CHAP: wrong secret of the target", self.refused, "non-retryable iSCSI login failure", INITIATOR[1],
                      WRONG_SECRET)


class TargetCases:
    """skiff with Linux's target."""

    def __init__(self, program, target, scheme, suffix, directory):
        self._program = program
        self._target = target
        self._portal = f"{scheme}://{INITIATOR[0]}@{target.portal}"
        self._suffix = suffix
        self._directory = directory

    def _skiff(self, command, path, algorithm, mutual, secret, target_secret):
        separator = "&" if self._suffix else "?"
        options = ["--password-file", peers.write_secret(self._directory, "initiator", secret)]
        if mutual:
            options += ["--target-user", TARGET[0],
                        "--target-password-file", peers.write_secret(self._directory, "target", target_secret)]
        url = f"{self._portal}{path}{self._suffix}{separator}chap_algorithms={algorithm}"
        done = subprocess.run([self._program, command, url, *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False)
        return done.returncode, done.stdout

    def succeeds(self, command, path, algorithm, mutual):
        self._target.authenticate(INITIATOR, TARGET if mutual else None)
        status, output = self._skiff(command, path, algorithm, mutual, INITIATOR[1], TARGET[1])
        expect(f"skiff {command} ends with status 0, not {status}: {output}", status == 0)
        expect(f"somebody was asked who he is: {output}", "without" not in output)

    def refused(self, mutual, secret, target_secret, message):
        self._target.authenticate(INITIATOR, TARGET if mutual else None)
        status, output = self._skiff("capacity", f"/{self._target.name}/0", "SHA-256", mutual, secret, target_secret)
        expect(f"skiff ends with status {LOGIN_REFUSED} and '{message}', not with {status}: {output}",
               status == LOGIN_REFUSED and re.search(message, output))

    def run(self, collected):
        disk = f"/{self._target.name}/0"
        collected.run("CHAP in discovery: one-way", self.succeeds, "discover", "", "SHA-256", False)
        collected.run("CHAP in discovery: mutual", self.succeeds, "discover", "", "SHA-256", True)
        collected.run("CHAP: one-way", self.succeeds, "capacity", disk, "SHA-256", False)
        for name in ALGORITHMS.values():
            collected.run(f"CHAP: mutual, {name}", self.succeeds, "capacity", disk, name, True)
        # Over RoCE, LIO may end the connection before it has said so.
        collected.run("CHAP: wrong secret of the initiator", self.refused, False, WRONG_SECRET, "",
                      "authentication failure|ended the connection")
        collected.run("CHAP: wrong secret of the target", self.refused, True, INITIATOR[1], WRONG_SECRET,
                      "the target does not know the secret")
