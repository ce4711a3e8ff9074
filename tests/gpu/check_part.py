"""A part of the checks while it runs: its time, its log, and its rows, which a part that is resumed has already."""

import os
import pathlib
import signal
import subprocess
import threading
import time

GRACE_S = 5  # between a request to end and the end
LATE = 124  # as timeout(1) says it


class Failed(Exception):
    """A check that did not pass; the text says why."""


class OutOfTime(Exception):
    """The part's time was over; the text says in which run."""


class Part:
    def __init__(self, programs, seconds, log=None, rows=None, keep=lambda rows: None):
        """`programs`: their folder. `log`: the file that gets what programs print, anew, or behind what is there where
        `rows` has some of an earlier call; None: it is kept in `said`. `keep(rows)` is called after each new row."""
        self.programs = programs
        self.seconds = seconds
        self.ends = time.monotonic() + seconds
        self.log = log
        self.said = ""
        self.rows = dict(rows or {})
        self.keep = keep
        self.running = set()  # sessions
        self.lock = threading.Lock()
        if log and not self.rows:
            log.write_text("")

    def once(self, name, work):
        """The row `name`, which JSON can hold: of the earlier call, else what work() returns."""
        if name not in self.rows:
            row = work()
            with self.lock:
                self.rows[name] = row
                self.keep(self.rows)
        return self.rows[name]

    def run(self, name, program, arguments, seconds):
        """Runs a program to its end. Returns (exit code, stdout, stderr); LATE: its seconds were over."""
        start = time.monotonic()
        left = self.ends - start
        if left <= 0:
            raise OutOfTime(name)
        command = [str(self.programs / program), *arguments]
        # A session of its own, by which also the ranks are found that the program starts.
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as run:
            self.running.add(run.pid)
            try:
                output, errors = run.communicate(timeout=min(seconds, left))
                code = run.returncode
            except subprocess.TimeoutExpired:
                end(run)
                output, errors = run.communicate()
                code = None
            self.running.discard(run.pid)
        output, errors = output.decode(errors="replace"), errors.decode(errors="replace")
        self.write(f"== {name}: {' '.join(command)}\n{output}{errors}"
                   f"-- {name}: {'ended' if code is None else f'exit code {code}'}, {time.monotonic() - start:.1f} s\n")
        if code is None and left < seconds:
            raise OutOfTime(name)
        return LATE if code is None else code, output, errors

    def must(self, name, program, arguments, seconds):
        """Stdout of a program that ends with 0."""
        code, output, errors = self.run(name, program, arguments, seconds)
        if code != 0:
            said = errors.strip().splitlines()
            reason = "took too long" if code == LATE else f"exit code {code}"
            raise Failed(f"{program} {name}: {reason}" + (f": {said[-1]}" if said else ""))
        return output

    def leave(self, code):
        """Ends this process, and what it runs at once: nobody else would, in sessions of their own."""
        self.ends = 0
        for session in list(self.running):
            kill_session(session)
        os._exit(code)

    def write(self, text):
        with self.lock:
            if self.log is None:
                self.said += text
                return
            with open(self.log, "a") as lines:
                lines.write(text)


def end(run):
    """Ends a program and all that it has started."""
    run.send_signal(signal.SIGTERM)
    try:
        run.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        pass
    kill_session(run.pid)


def kill_session(number):
    """Ranks are process groups of their own, but of their program's session."""
    for process in pathlib.Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            # After the name, which is in parentheses: state, parent, process group, session.
            session = int((process / "stat").read_text().rpartition(")")[2].split()[3])
            if session == number:
                os.kill(int(process.name), signal.SIGKILL)
        except (OSError, ValueError):
            pass  # it has ended meanwhile
