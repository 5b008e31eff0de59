"""What tests look at until it is so: figures of a daemon, conditions, and several jobs at once."""
import threading
import time


def metric(site, name):
    """One figure of /metrics that has no labels."""
    for line in site.admin_get("/metrics")[1].decode().splitlines():
        if line.startswith(name + " "):
            return float(line.split()[-1])
    raise AssertionError(name)


def eventually(condition, seconds=120):
    """Something else has to happen first, and it does not say when."""
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    assert condition()


def run_all(jobs):
    """Each in a thread of its own; the first failure is raised when all have ended."""
    failed = []

    def run(job):
        try:
            job()
        except BaseException as error:  # pylint: disable=broad-except
            failed.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
