"""What a check works with: the commands of cudasnoop, a place for its files, the table."""

import json
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from . import process
from .events import Events
from .process import CommandFailed
from .report import Report
from .rows import Table

FOLDER = Path(__file__).resolve().parent.parent
# How long cudasnoop may take to attach to a running process, s.
ATTACH_PATIENCE = 30
# The libraries whose functions are traced, by the beginning of their file names.
TRACED = ("libcudart.", "libcuda.so", "libc10.so")


class OutOfTime(Exception):
    """The whole run may take only so long."""


class Recording:
    """A finished recording and the questions that cudasnoop answers on it."""

    def __init__(self, bench, name, path):
        self.bench = bench
        self.name = name
        self.path = path

    def report(self, window=None, pid=None, label=None):
        """The report, on the part of the recording between two moments, of one process."""
        arguments = ["report", self.path, "--json", *_window(window)]
        if pid is not None:
            arguments += ["--pid", pid]
        return Report(self._ask(arguments, f"report-{label or 'all'}"))

    def fragmentation(self, at, label=None, options=()):
        """The state of the memory at a moment."""
        return self._ask(["fragmentation", self.path, "--json", "--at", f"@{at}", *options], label)

    def memory(self, at):
        """Who held what at a moment."""
        return self._ask(["memory", self.path, "--json", "--at", f"@{at}"], None)

    def events(self):
        """Its rows, read without cudasnoop."""
        return Events.read(self.path)

    def text(self, command, *arguments):
        """A command's answer as people read it, kept beside the results."""
        done = self.bench.cudasnoop([command, self.path, *arguments])
        self.bench.keep(f"{self.name}-{command}.txt", done.stdout)
        return done.stdout

    def _ask(self, arguments, label):
        document = json.loads(self.bench.cudasnoop(arguments).stdout)
        if label:
            self.bench.keep(f"{self.name}-{label}.json", json.dumps(document, indent=1))
        return document

    def drop(self):
        """Recordings are large; what was asked of them is kept."""
        if not self.bench.keep_recordings:
            self.path.unlink(missing_ok=True)


class Bench:
    """One run: its table, its folder, its time."""

    def __init__(self, cudasnoop, work, python=sys.executable, seconds=450, keep_recordings=False, vllm=None):
        self.program = Path(cudasnoop)
        self.work = Path(work)
        self.python = python
        self.deadline = time.monotonic() + seconds
        self.keep_recordings = keep_recordings
        self.vllm = vllm
        self.table = Table()
        self.artefacts = self.work / "artefacts"
        self.artefacts.mkdir(parents=True, exist_ok=True)

    def left(self, wanted):
        """The time that a command may take: what it wants, or what is left."""
        left = self.deadline - time.monotonic()
        if left < 5:
            raise OutOfTime("no time is left for it")
        return min(wanted, left)

    def sleep(self, seconds):
        time.sleep(self.left(seconds))

    def keep(self, name, text):
        """Leaves a small file beside the results."""
        (self.artefacts / name).write_text(text, encoding="utf-8")

    def cudasnoop(self, arguments, timeout=60, env=None):
        """Runs one of cudasnoop's commands."""
        return process.run([self.program, *arguments], self.left(timeout), env).check()

    def script(self, name, label=None):
        """The words that start a scenario's program, and where it leaves its truth."""
        truth = self.work / f"{label or name}.truth.json"
        truth.unlink(missing_ok=True)
        return [self.python, FOLDER / "scenarios" / f"{name}.py", truth], truth

    def record(self, name, script=None, env=None, options=(), timeout=120):
        """Records a scenario's program from before its start. Returns its truth and the recording."""
        words, truth = self.script(script or name)
        recording = self.record_command(name, words, env, options, timeout)
        return self.truth(name, truth), recording

    def record_command(self, name, words, env=None, options=(), timeout=120):
        """Records any command from before its start."""
        path = self.work / f"{name}.arrows"
        done = process.run(
            [self.program, "record", "-o", path, *options, "--", *words], self.left(timeout), env
        )
        self.keep(f"{name}-stderr.txt", done.stderr)
        done.check()
        return Recording(self, name, path)

    def truth(self, name, path):
        """What a traced program said of itself."""
        truth = json.loads(Path(path).read_text(encoding="utf-8"))
        self.keep(f"{name}-truth.json", json.dumps(truth, indent=1))
        return truth

    @contextmanager
    def attached(self, name, pid):
        """Records a running process until the block ends.

        The block begins when the recorder has named every CUDA library that the process has mapped.
        """
        recording = Recording(self, name, self.work / f"{name}.arrows")
        messages = self.artefacts / f"{name}-stderr.txt"
        words = [self.program, "record", "-o", recording.path, "-p", pid]
        wanted = traced_libraries(pid)
        with open(messages, "w", encoding="utf-8") as stderr:
            child = process.start(words, env={"CUDASNOOP_LOG": "info"}, stderr=stderr)
        try:
            deadline = time.monotonic() + self.left(ATTACH_PATIENCE)
            heard = ""
            while missing := [library for library in wanted if library not in heard]:
                if child.poll() is not None or time.monotonic() > deadline:
                    raise CommandFailed(f"not attached to {', '.join(missing)}: {process.tail(heard)}")
                time.sleep(0.02)
                heard = messages.read_text(encoding="utf-8", errors="replace")
            yield recording
        finally:
            process.stop(child)

    def complete(self, scenario, recording):
        """The row without which no other counts: nothing lost, all accounts in balance."""
        report = recording.report()
        faults = report.faults()
        events = report.document["recording"]["events"]
        self.table.equal(
            scenario, "losses, gaps and accounts out of balance", len(faults), 0, cause="; ".join(faults),
            note=f"{events:,} events recorded",
        )
        return report


def traced_libraries(pid):
    """The paths of the CUDA and PyTorch libraries that a process has mapped."""
    paths = set()
    for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines():
        path = line.split(maxsplit=5)[5:]
        if path and Path(path[0]).name.startswith(TRACED):
            paths.add(path[0])
    return sorted(paths)


def _window(window):
    """The options for [from, to]; an open end is None."""
    options = zip(("--from", "--to"), window or ())
    return [word for option, moment in options if moment is not None for word in (option, f"@{moment}")]
