#!/usr/bin/env python3
"""`make run`: a store on four drive folders (2+2) in the foreground, its data kept under run/ (or the folder named), until Ctrl-C."""
import argparse
import os
import secrets
import shlex
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / os.environ.get("MILLRACE_BUILD", "build/release") / "millraced"


def credentials(folder):
    """Kept in a file of their own beside the drives, so that every run has the same; made at the first run."""
    path = folder / "credentials"
    if not path.exists():
        with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w") as file:
            file.write(f"access_key = {'AK' + secrets.token_hex(9).upper()}\nsecret_key = {secrets.token_urlsafe(30)}\n")
    return dict(line.split(" = ", 1) for line in path.read_text().splitlines()), path


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "run", help="where the data is kept (default: run/ of the project)")
    parser.add_argument("--listen", default="127.0.0.1:9000")
    parser.add_argument("--admin", default="127.0.0.1:9001")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    drives = [folder / f"drive{i}" for i in range(1, 5)]
    for drive in drives:
        drive.mkdir(parents=True, exist_ok=True)
    keys, path = credentials(folder)
    endpoint = f"http://{arguments.listen}"
    aws, documents = (shlex.quote(str(ROOT / path)) for path in ("build/venv/bin/aws", "docs"))
    print(f"""
  data         {folder} (kept; delete the folder to begin anew)
  endpoint     {endpoint}      admin  http://{arguments.admin}
  access key   {keys['access_key']}
  secret key   {keys['secret_key']}

  Try, in another terminal:

    export AWS_ACCESS_KEY_ID={keys['access_key']} AWS_SECRET_ACCESS_KEY={keys['secret_key']} \\
           AWS_DEFAULT_REGION=us-east-1 AWS_ENDPOINT_URL={endpoint}
    {aws} s3 mb s3://first
    {aws} s3 cp --recursive {documents} s3://first/docs/
    {aws} s3 ls --recursive s3://first/

  Ctrl-C stops it.
""", flush=True)
    command = [str(PROGRAM), *[word for drive in drives for word in ("--drive", str(drive))], "--format", "--ec", "2+2",
               "--listen", arguments.listen, "--admin", arguments.admin, "--root-credentials", str(path)]
    process = subprocess.Popen(command)
    # Ctrl-C reaches the daemon too, as part of the foreground group: it drains, and this waits for it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    return process.wait()


if __name__ == "__main__":
    sys.exit(main())
