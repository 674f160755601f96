"""Habits that cost time or memory, or that fail: one in each run.

The second argument names the habit. The truth is the kinds of findings that it must lead to.
"""

import os
import sys

import torch
from habit import HABITS
from truth import now, write


def main():
    habit = HABITS[sys.argv[2]]
    torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    begin = now()
    kept = habit.act()
    if "error.fatal" not in habit.found:
        torch.cuda.synchronize()
    end = now()
    pid = None if habit.is_many else os.getpid()
    write({"pid": pid, "window": [begin, end], "found": habit.found, "noted": habit.noted})
    # Without tidying up: what is in `kept` is held to the very end.
    os._exit(0)


main()
