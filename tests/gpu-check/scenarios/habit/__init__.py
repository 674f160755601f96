"""Habits of programs, by the kind of finding that each leads to."""

from . import failing, growing, held, time

HABITS = {**time.HABITS, **held.HABITS, **failing.HABITS, **growing.HABITS}
