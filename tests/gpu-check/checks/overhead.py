"""What the probes cost in the worst case: a program that only launches. Information, no claim."""

import json
from statistics import median

from gpu_check.process import Dialogue

ROUNDS = 4


def check(bench, name):
    # Bare and recorded in turn, in one process: the machine's own drift meets both.
    bare, recorded = [], []
    words, _ = bench.script("overhead")
    with Dialogue(words) as program:
        program.hear(bench.left(90))
        for number in range(ROUNDS):
            bare.append(measure(bench, program))
            with bench.attached(f"{name}-{number}", program.pid) as recording:
                recorded.append(measure(bench, program))
            recording.drop()
        program.say("quit")
        program.end(bench.left(30))
    for kind in bare[0]:
        without, attached = (median(round_[kind] for round_ in rounds) for rounds in (bare, recorded))
        bench.table.information(
            name, f"{kind}: ns a call while recorded, and bare", round(attached), round(without),
            f"{attached / without:.2f} times; medians of {ROUNDS} rounds each, in turn",
        )


def measure(bench, program):
    program.say("round")
    return json.loads(program.hear(bench.left(60)))
