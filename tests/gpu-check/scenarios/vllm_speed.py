"""A vLLM engine that generates when it is told to. `eager` as the second argument: without graphs.

Speaks by lines: prints `ready`; at each number generates for so many seconds, and prints as JSON the tokens of a
generation, and of each generation its beginning and end, ns of CLOCK_MONOTONIC; ends at `quit`.
What vLLM itself prints goes to stderr.
"""

import json
import os
import sys
import time

import tiny_llama

def main():
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    eager = sys.argv[2:] == ["eager"]
    with tiny_llama.engine(enforce_eager=eager) as llm:
        tiny_llama.generate(llm)
        print("ready", file=answers)
        while (word := sys.stdin.readline().strip()).isdigit():
            end, generations = time.monotonic_ns() + int(word) * 10**9, []
            while (begin := time.monotonic_ns()) < end:
                tokens = tiny_llama.generate(llm)
                generations.append([begin, time.monotonic_ns()])
            print(json.dumps({"tokens": tokens, "generations": generations}), file=answers)


if __name__ == "__main__":
    main()
