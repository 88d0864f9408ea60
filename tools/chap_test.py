#!/usr/bin/env python3
"""skiffd asks who logs in, and skiff says it: by CHAP, as separate processes.

Usage: chap_test.py SKIFFD SKIFF
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

SECONDS = 60
OK, USAGE, NO_SESSION = 0, 2, 3
NAME = "iqn.2026-11.com.example:private"
OPEN = "iqn.2026-11.com.example:open"
CLIENT, OWN, FINDER = "the client's secret", "the target's own secret", "secret of discovery"

SKIFFD = SKIFF = None


class ChapTest(unittest.TestCase):
    """One daemon: a target with an account, one without, and an account for discovery."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.directory.name)
        for name, secret in (("bound", "bound to one name"), ("client", CLIENT), ("own", OWN), ("finder", FINDER), ("wrong", "not the right one")):
            cls.write(name, secret + "\n")
        cls.config = cls.path / "skiffd.conf"
        cls.config.write_text(
            f'portal: "tcp://127.0.0.1:0"\n'
            f'discovery_account {{ name: "finder" secret_file: "{cls.path}/finder" }}\n'
            f'target {{ name: "{NAME}" lun {{ ram {{ size: "1MiB" }} }}\n'
            f'  account {{ name: "client" secret_file: "{cls.path}/client" own_name: "disks" own_secret_file: "{cls.path}/own" }}\n'
            f'  account {{ name: "bound" secret_file: "{cls.path}/bound" initiator_name: "iqn.2026-11.com.example:mine" }}\n'
            f'  account {{ name: "plain" secret_file: "{cls.path}/finder" }}\n}}\n'
            f'target {{ name: "{OPEN}" lun {{ ram {{ size: "2MiB" }} }} }}\n', encoding="utf-8")
        with open(cls.path / "log", "w", encoding="utf-8") as log:
            cls.process = subprocess.Popen([SKIFFD, "--config", cls.config, "--log-level", "debug"],
                                           stdout=subprocess.PIPE, stderr=log, text=True)
        cls.portal = re.search(r"portal=tcp://(\S+)", cls.process.stdout.readline())[1]

    @classmethod
    def tearDownClass(cls):
        cls.process.terminate()
        status = cls.process.wait(SECONDS)
        cls.process.stdout.close()
        log = cls.log()
        cls.directory.cleanup()
        if status != 0:
            raise AssertionError(f"skiffd ended with {status}:\n{log}")
        for secret in (CLIENT, OWN, FINDER):
            if secret in log:
                raise AssertionError(f"the log has a secret:\n{log}")

    @classmethod
    def write(cls, name, text, mode=0o600):
        path = cls.path / name
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return path

    @classmethod
    def log(cls):
        return (cls.path / "log").read_text(encoding="utf-8")

    def skiff(self, *arguments):
        environment = {key: value for key, value in os.environ.items() if key != "SKIFF_PASSWORD"}
        return subprocess.run([SKIFF, *map(str, arguments)], capture_output=True, text=True, timeout=SECONDS,
                              env=environment, check=False)

    def check(self, code, pattern, *arguments):
        result = self.skiff(*arguments)
        self.assertEqual(result.returncode, code, (arguments, result.stderr))
        self.assertRegex(result.stdout + result.stderr, pattern)
        for secret in (CLIENT, OWN, FINDER):
            self.assertNotIn(secret, result.stdout + result.stderr)

    def url(self, user="", target=NAME):
        return f"iscsi://{user}{self.portal}/{target}/0"

    def secret(self, name):
        return f"--password-file={self.path}/{name}"

    def test_who_knows_the_secret_comes_in(self):
        self.check(OK, "1 MiB", "capacity", self.url("client@"), self.secret("client"))
        self.check(OK, "1 MiB", "capacity", self.url("client%the%20client's%20secret@"))
        self.check(OK, "2 MiB", "capacity", self.url(target=OPEN))

    def test_nobody_else_does(self):
        refused = r"authentication failure \(0x0201\)"
        self.check(NO_SESSION, refused + ".*nobody was named", "capacity", self.url())
        self.check(NO_SESSION, refused, "capacity", self.url("client@"), self.secret("wrong"))
        self.check(NO_SESSION, refused, "capacity", self.url("stranger@"), self.secret("client"))
        self.assertRegex(self.log(), '"client" does not know its secret')
        self.assertRegex(self.log(), 'nobody is called "stranger"')

    def test_a_name_with_an_account_of_its_own_is_nobody_elses(self):
        mine = "--initiator-name=iqn.2026-11.com.example:mine"
        self.check(OK, "1 MiB", "capacity", self.url("bound@"), self.secret("bound"), mine)
        # Who logs in by that name would take over the sessions of it.
        self.check(NO_SESSION, r"authentication failure \(0x0201\)", "capacity", self.url("plain@"), self.secret("finder"), mine)
        self.check(OK, "1 MiB", "capacity", self.url("plain@"), self.secret("finder"))

    def test_the_target_shows_who_it_is(self):
        own = f"--target-password-file={self.path}/own"
        self.check(OK, "1 MiB", "capacity", self.url("client@"), self.secret("client"), own, "--target-user=disks")
        self.check(NO_SESSION, 'calls itself "disks" and not "tapes"', "capacity", self.url("client@"),
                   self.secret("client"), own, "--target-user=tapes")
        self.check(NO_SESSION, "does not know the secret", "capacity", self.url("client@"), self.secret("client"),
                   f"--target-password-file={self.path}/wrong")
        # The account has no secret for that, and the other target asks for nothing.
        self.check(NO_SESSION, "0x0201", "capacity", self.url("plain@"), self.secret("finder"), own)
        self.check(NO_SESSION, "authentication", "capacity", self.url("client@", OPEN), self.secret("client"), own)
        self.check(USAGE, "the same secret", "capacity", self.url("client@"), self.secret("own"), own)

    def test_discovery_has_accounts_of_its_own(self):
        self.check(OK, NAME, "discover", f"iscsi://finder@{self.portal}", self.secret("finder"))
        self.check(NO_SESSION, "0x0201", "discover", f"iscsi://{self.portal}")
        self.check(NO_SESSION, "0x0201", "discover", f"iscsi://client@{self.portal}", self.secret("client"))

    def test_an_account_can_be_one_initiators(self):
        other = ["--initiator-name", "iqn.2026-11.com.example:other"]
        mine = ["--initiator-name", "iqn.2026-11.com.example:mine"]
        self.check(OK, "1 MiB", "capacity", self.url("bound@"), self.secret("bound"), *mine)
        self.check(NO_SESSION, "0x0201", "capacity", self.url("bound@"), self.secret("bound"), *other)

    def test_who_guesses_is_slowed(self):
        guess = ("capacity", self.url("client@"), self.secret("wrong"), "--initiator-name", "iqn.2026-11.com.example:guesser")
        for _ in range(5):
            self.check(NO_SESSION, "0x0201", *guess)
        begin = time.monotonic()
        self.check(NO_SESSION, "0x0201", *guess)
        self.assertGreaterEqual(time.monotonic() - begin, 1)
        self.assertRegex(self.log(), r"logins of iqn\.2026-11\.com\.example:guesser from 127\.0\.0\.1 failed 6 times within 10m")

    def test_passwords_in_urls_are_not_shown(self):
        url = f"iscsi://client%the%20client's%20secret@{self.portal}/{NAME}"
        plain = "the%20client's%20secret"
        for arguments in (("capacity", url), ("discover", url), ("perf", url + "/0", "--json", "--runtime=10ms"),
                          ("copy", url + "/0", "/nowhere/file"), ("capacity", url.replace("secret@", "sec/ret@") + "/0"),
                          ("capacity", f"{url}/0?target_password=hidden&target_password=hidden")):
            result = self.skiff(*arguments)
            for secret in (plain, "secret@", "sec/ret", "hidden"):
                self.assertNotIn(secret, result.stdout + result.stderr, arguments)

    def test_files_are_checked(self):
        self.write("public", CLIENT, 0o644)
        self.check(USAGE, "chmod 600", "capacity", self.url("client@"), self.secret("public"))
        self.check(USAGE, "of whom", "capacity", self.url(), self.secret("client"))
        self.write("short", "short")
        bad = self.write("bad.conf", f'target {{ name: "{NAME}" lun {{ ram {{ size: "1MiB" }} }}\n'
                         f'account {{ name: "a" secret_file: "{self.path}/public" }}\n'
                         f'account {{ name: "a" secret_file: "{self.path}/short" }}\n'
                         f'account {{ name: "b" secret_file: "{self.path}/own" own_secret_file: "{self.path}/own" }}\n'
                         f'account {{ secret_file: "{self.path}/none" own_name: "x" }}\n'
                         f'account {{ name: "d" secret_file: "{self.path}/client" own_secret_file: "{self.path}/finder" }}\n'
                         f'account {{ name: "c" secret_file: "{self.path}/finder" initiator_name: "nobody" }} }}\n'
                         f'chap {{ algorithm: "MD4" }}\n')
        result = subprocess.run([SKIFFD, "--check", "--config", bad], capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual(result.returncode, USAGE)
        for line, pattern in ((2, "chmod 600"), (3, "a secret for CHAP has 5 bytes"), (3, "account a is defined already by"),
                              (4, "the same secret"), (5, "needs the name"), (5, "No such file"),
                              (5, "own_name needs own_secret_file"), (6, "secret of account c at .*bad.conf:7"), (7, "nobody"), (8, "no algorithm of CHAP is called 'MD4'")):
            self.assertRegex(result.stderr, rf"bad\.conf:{line}: .*{pattern}")
        self.assertNotIn(CLIENT, result.stderr)


if __name__ == "__main__":
    SKIFFD, SKIFF = (os.path.abspath(path) for path in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
