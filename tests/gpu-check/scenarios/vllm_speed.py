"""A vLLM engine that generates when it is told to. `eager` as the second argument: without graphs.

Speaks by lines: prints `ready`; at each number generates for so many seconds, and prints as JSON the tokens of a
generation, of each generation its beginning and end, ns of CLOCK_MONOTONIC, and likewise of pieces of them that are
alike, of a tenth of a second or so; ends with its input. What vLLM itself prints goes to stderr.
"""

import json
import os
import sys
import time

import tiny_llama

# A generation without graphs takes a second: so many steps of it take a tenth.
STEPS_OF_A_PIECE = 8


def main():
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    eager = sys.argv[2:] == ["eager"]
    with tiny_llama.engine(enforce_eager=eager) as llm:
        steps = noted(type(llm.llm_engine))
        tiny_llama.generate(llm)
        print("ready", file=answers)
        while (word := sys.stdin.readline().strip()).isdigit():
            end, generations, pieces = time.monotonic_ns() + int(word) * 10**9, [], []
            while (begin := time.monotonic_ns()) < end:
                steps.clear()
                tokens = tiny_llama.generate(llm)
                generations.append([begin, time.monotonic_ns()])
                pieces += pieces_of(steps) if eager else generations[-1:]
            print(json.dumps({"tokens": tokens, "generations": generations, "pieces": pieces}), file=answers)


def noted(engine):
    """From now on, beginning and end of each step of an engine of this class.

    Of the class: a step of the object's own would hold the object, which then lives until the interpreter ends, where
    it is waited for in vain that its processes end.
    """
    moments, step = [], engine.step

    def timed(self):
        begin = time.monotonic_ns()
        outputs = step(self)
        moments.append([begin, time.monotonic_ns()])
        return outputs

    engine.step = timed
    return moments


def pieces_of(steps):
    """Some steps each; without the first, which read the prompts."""
    size = STEPS_OF_A_PIECE
    return [[steps[at][0], steps[at + size - 1][1]] for at in range(size, len(steps) - size + 1, size)]


if __name__ == "__main__":
    main()
