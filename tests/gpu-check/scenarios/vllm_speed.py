"""A vLLM engine that generates when it is told to. `eager` as the second argument: without graphs.

Speaks by lines: prints `ready`; at each number generates so often and prints tokens a second; ends at `quit`.
What vLLM itself prints goes to stderr.
"""

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
            begin, tokens = time.monotonic(), 0
            for _ in range(int(word)):
                tokens += tiny_llama.generate(llm)
            print(tokens / (time.monotonic() - begin), file=answers)


if __name__ == "__main__":
    main()
