"""Tokens a second of a vLLM engine beside `serve`, with its probes on and off in turn.

`serve` starts before the engine, as a sidecar does. Off means no probe at all: one and the same
engine is its own comparison, and what drifts meets both.
"""

import json
import random
import time
import urllib.request
from statistics import median

from gpu_check import process
from gpu_check.process import CommandFailed, Dialogue

ADMIN = "127.0.0.1:19411"
# Rounds of the comparison, and rounds of 1,024 tokens in each: some seconds, and ten where a budget
# has to find its pace.
EXACT = 10, {"graphs": 12, "eager": 4}
WITHIN_BUDGET = 5, {"graphs": 50, "eager": 11}


def check(bench, name):
    compare(bench, name, WITHIN_BUDGET, [])


def check_exact(bench, name):
    compare(bench, name, EXACT, ["--max-overhead", "off"])


def compare(bench, name, plan, options):
    if bench.vllm is None:
        bench.table.skipped(name, "no --vllm SITE was given")
        return
    rounds, repeats = plan
    for mode in ("graphs", "eager"):
        measure(bench, f"{name}: {mode}", mode, rounds, repeats[mode], options)


def measure(bench, name, mode, rounds, repeats, options):
    words = [bench.program, "serve", "--exe", "python*", "--exe", "pt_main_thread", "--listen", "127.0.0.1:0", "--admin", ADMIN]
    # An engine is up for months, this one for minutes: its idle workers must not wait for one of them.
    words += ["--idle-after", "10s"]
    messages = bench.artefacts / f"{name.replace(': ', '-')}-serve.txt"
    with open(messages, "w", encoding="utf-8") as stderr:
        serve = process.start([*words, *options], stderr=stderr)
    try:
        wait_for(bench, lambda: ask("readyz") is not None)
        script, _ = bench.script("vllm_speed")
        environment = {"PYTHONPATH": str(bench.vllm)}
        with Dialogue([*script, mode], env=environment) as engine:
            engine.hear(bench.left(200))
            pairs = [(one(bench, engine, "on", repeats), one(bench, engine, "off", repeats)) for _ in range(rounds)]
            bench.keep(f"{name.replace(': ', '-')}-metrics.txt", ask("metrics") or "")
            bench.keep(f"{name.replace(': ', '-')}-rounds.json", json.dumps(pairs))
            engine.say("quit")
            engine.end(bench.left(60))
    finally:
        process.stop(serve)
    traced, bare = zip(*pairs)
    low, high = interval([on / off for on, off in pairs])
    bench.table.information(
        name, "tokens a second with probes, and without", f"{median(traced):,.0f}", f"{median(bare):,.0f}",
        f"{median(on / off for on, off in pairs):.3f} times (95 % of resampled medians: {low:.3f} to {high:.3f}); "
        f"{rounds} rounds each, in turn",
    )


def one(bench, engine, state, repeats):
    """Tokens a second of one round. The first moments after a switch belong to neither."""
    urllib.request.urlopen(urllib.request.Request(f"http://{ADMIN}/api/v1/probes/{state}", method="PUT"), timeout=10).close()
    wait_for(bench, lambda: json.loads(ask("api/v1/probes"))["on"] is (state == "on"))
    engine.say("1")
    engine.hear(bench.left(60))
    engine.say(str(repeats))
    return float(engine.hear(bench.left(60)))


def interval(ratios, repeats=2000):
    """Where 95 % of the medians of resampled rounds lie."""
    chance = random.Random(1)
    medians = sorted(median(chance.choices(ratios, k=len(ratios))) for _ in range(repeats))
    return medians[repeats // 40], medians[-repeats // 40]


def ask(path):
    """An answer's text; None where there is none (yet)."""
    try:
        with urllib.request.urlopen(f"http://{ADMIN}/{path}", timeout=5) as answer:
            return answer.read().decode("utf-8")
    except OSError:
        return None


def wait_for(bench, is_done):
    until = time.monotonic() + bench.left(30)
    while not is_done():
        if time.monotonic() > until:
            raise CommandFailed("cudasnoop serve does not get ready")
        time.sleep(0.05)
