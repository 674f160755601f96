"""What habits have in common."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

MIB, GIB = 1 << 20, 1 << 30


@dataclass
class Habit:
    """What a program does, and the kinds of findings that it must lead to.

    `found`: critical ones and warnings, each and no other; `noted`: of those that are information.
    `act` returns what is to be held to the end.
    """

    act: Callable
    found: list = field(default_factory=list)
    noted: list = field(default_factory=list)
    # Whether other processes belong to it, whose findings count.
    is_many: bool = False


def take(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")
