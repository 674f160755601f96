"""Runs a command on a terminal that goes away: it must end, whether that tells it so (SIGHUP) or not."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios

for controls in (True, False):
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))

    def start():
        os.setsid()
        if controls:
            fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    top = subprocess.Popen(
        sys.argv[1:], stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL,
        preexec_fn=start, env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    drawn = b""
    while b"Tracing" not in drawn:
        if not select.select([ours], [], [], 20)[0]:
            top.kill()
            sys.exit(f"it draws nothing but {drawn}")
        drawn += os.read(ours, 65536)
    os.close(ours)
    try:
        top.wait(20)
    except subprocess.TimeoutExpired:
        top.kill()
        sys.exit(f"it goes on without a terminal that {'was' if controls else 'was not'} its own")
