"""Runs a command and prints the most memory that it had, in KiB: `large.py COMMAND...`."""

import resource
import subprocess
import sys

subprocess.run(sys.argv[1:], check=True, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
