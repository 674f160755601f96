"""Running programs so that none outlives its time."""

import os
import select
import signal
import subprocess
from dataclasses import dataclass


class CommandFailed(Exception):
    """What was run, how it ended, and the end of what it wrote to stderr."""


@dataclass
class Finished:
    command: list
    code: int
    stdout: str
    stderr: str

    def check(self):
        """Itself if it ended well, else an error that shows why."""
        if self.code != 0:
            raise CommandFailed(f"`{shown(self.command)}` ended with {self.code}: {tail(self.stderr)}")
        return self


def run(command, timeout, env=None):
    """Runs a command to its end; at the timeout its whole process group is ended."""
    command = [str(word) for word in command]
    child = start(command, env=env)
    try:
        stdout, stderr = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        stdout, stderr = stop(child)
        raise CommandFailed(f"`{shown(command)}` ran past {timeout:.0f} s: {tail(stderr)}") from None
    return Finished(command, child.returncode, stdout, stderr)


def start(command, env=None, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE):
    """Starts a command in a process group of its own."""
    return subprocess.Popen(
        [str(word) for word in command],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        errors="replace",
        env={**os.environ, **(env or {})},
        start_new_session=True,
    )


def stop(child, patience=10):
    """Ends a process group: asks first, so that a recording is closed, then insists.

    Returns what it wrote to stdout and stderr, where these are pipes.
    """
    for number, wait in ((signal.SIGINT, patience), (signal.SIGKILL, 5)):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            pass
        try:
            return child.communicate(timeout=wait)
        except subprocess.TimeoutExpired:
            continue
    return "", "it did not end"


def shown(command):
    """A command for a message: paths by their last part."""
    return " ".join(word.rsplit("/", 1)[-1] for word in command)


def tail(text, lines=6):
    """The last lines of an output, in one."""
    return " / ".join(text.strip().splitlines()[-lines:]) or "(nothing on stderr)"


class Dialogue:
    """A running program that is told what to do, and answers, by lines."""

    def __init__(self, command, env=None):
        self.child = start(command, env=env, stdin=subprocess.PIPE)
        self.pid = self.child.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        stop(self.child)

    def say(self, words):
        self.child.stdin.write(words + "\n")
        self.child.stdin.flush()

    def hear(self, timeout):
        """The program's next line."""
        ready, _, _ = select.select([self.child.stdout], [], [], timeout)
        line = self.child.stdout.readline() if ready else ""
        if not line:
            _, stderr = stop(self.child, patience=1)
            raise CommandFailed(f"the program said nothing for {timeout:.0f} s, or ended: {tail(stderr)}")
        return line.rstrip("\n")

    def end(self, timeout):
        """Waits for the program to end by itself; its exit status."""
        return self.child.wait(timeout)
