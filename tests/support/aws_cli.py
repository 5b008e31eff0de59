"""awscli without its start: a process that has it imported forks for each command, which then is as one of its own. A start of the program takes longer than what
tests ask of it, and there are hundreds of them."""
import atexit
import json
import subprocess
import sys

SERVER = """
import json, os, sys, traceback
import awscli.clidriver, awscli.customizations.s3.subcommands, awscli.customizations.commands, awscli.handlers

def become(order):
    own = os.environ["AWS_DATA_PATH"] # it has set that when it was imported
    os.environ.clear()
    os.environ.update(order["env"], AWS_DATA_PATH=own)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        opened = os.open(order[name], os.O_RDONLY if number == 0 else os.O_WRONLY)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, "r" if n == 0 else "w", encoding="utf-8", closefd=False) for n in range(3))
    sys.argv = ["aws", *order["arguments"]]
    return awscli.clidriver.main()

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        status = 255
        try:
            status = become(json.loads(line))
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 255
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status or 0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class AwsCli:
    """Runs awscli's commands, one after the other, in an environment of their own."""

    server = None

    def __init__(self, env, folder):
        self.env, self.folder = env, folder

    def __call__(self, *arguments, fails=False, stdin=b""):
        paths = {name: self.folder / f"aws-{name}" for name in ("stdin", "stdout", "stderr")}
        for path in paths.values():
            path.write_bytes(b"")
        paths["stdin"].write_bytes(stdin or b"")
        status = self.run({"arguments": [str(word) for word in arguments], "env": self.env, **{name: str(path) for name, path in paths.items()}})
        out, err = paths["stdout"].read_bytes(), paths["stderr"].read_bytes()
        assert (status != 0) == fails, (arguments, status, out[-2000:], err[-2000:])
        return out

    @classmethod
    def run(cls, order):
        if cls.server is None or cls.server.poll() is not None:
            cls.server = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            atexit.register(cls.server.kill)
        try:
            print(json.dumps(order), file=cls.server.stdin, flush=True)
            return int(cls.server.stdout.readline())
        except BaseException:  # a test's limit in time, above all: what comes then would be another command's
            cls.server.kill()
            cls.server = None
            raise
