"""A daemon on the folders of a fixture, and what an operator asks of it."""
import json
import os
import shlex
import subprocess

from tests.conftest import make_client
from tests.support.daemon import CLI, PATIENCE, PROGRAM, Daemon, sanitizer_environment

# Files as small as settings allow. Nothing is looked for in the background: a test says what finds damage.
SMALL = {"segment_size": "4MiB", "log_file_size": "4MiB", "memtable_size": "1MiB", "cache": "1MiB", "scrub_rate": "0"}


class FixtureDaemon(Daemon):
    """The credentials are those that stand on the drives."""

    def __init__(self, folder, drives, ec=None, settings=None):
        paths = [folder / name for name in drives]
        super().__init__(folder=folder, drive_paths=paths, ec=ec, credentials=False, settings={**SMALL, **(settings or {})})

    def learn_credentials(self):
        text = next(d / "CREDENTIALS" for d in self.drives if (d / "CREDENTIALS").exists()).read_text()
        found = dict(line.split(" = ", 1) for line in text.splitlines() if " = " in line)
        if "sealed" in found:  # a build of today; layout 1 was made by one that kept them in plain text
            shown = subprocess.run([str(PROGRAM), "--show-credentials", "--drive", self.drives[0], "--key-file", self.folder / "key"],
                                   capture_output=True, text=True, check=True).stdout
            words = dict(word.split("=", 1) for word in shlex.split(shown) if "=" in word)
            found = {"access_key": words["AWS_ACCESS_KEY_ID"], "secret_key": words["AWS_SECRET_ACCESS_KEY"]}
        self.use_credentials(found)

    def use_credentials(self, found):
        self.known = {"access_key": found["access_key"], "secret_key": found["secret_key"]}

    def s3(self):
        return make_client(self.endpoint, self.known["access_key"], self.known["secret_key"], retries=4)

    def ask(self, *arguments):
        """JSON of a command of `millrace admin`; its exit status says whether something is wrong, which the caller sees in the answer."""
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "MILLRACE_ENDPOINT": self.endpoint,
               "MILLRACE_ROOT_ACCESS_KEY": self.known["access_key"], "MILLRACE_ROOT_SECRET_KEY": self.known["secret_key"],
               "MILLRACE_ADMIN": f"http://{self.host}:{self.admin_port}", **sanitizer_environment()}
        done = subprocess.run([str(CLI), "admin", *map(str, arguments)], env=env, capture_output=True, text=True, timeout=60 * PATIENCE, check=False)
        assert done.returncode in (0, 1), (arguments, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        return json.JSONDecoder().raw_decode(done.stdout)[0] if "--json" in arguments else done.stdout + done.stderr

    def drives_now(self):
        return self.ask("drive", "status", "--json")["drives"]

    def wait_whole(self, timeout=60):
        """No drive catches up, is filled, comes or goes, and no object lacks a shard that it could have."""
        def look():
            health = self.health_json()[1]
            return (health["objects_below_redundancy"] == 0 and not health["healing"] and
                    all(d["state"] in ("in", "removed") and not d["filling"] and not d["leaving"] for d in self.drives_now()))

        self.wait_until(look, timeout, "to be whole")

    def verify(self):
        found = self.ask("verify", "--json")
        return {name: found[name] for name in ("objects", "damaged_shards", "repaired_shards", "missing_shards", "unreadable_objects")}
