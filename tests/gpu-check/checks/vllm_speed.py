"""What `serve` costs a vLLM engine: within its budget, and where all calls are traced all the time.

`serve` starts before the engine, as a sidecar does. One and the same engine is its own comparison.

Within the budget, most probes come in windows, which cost less than the engine's speed drifts in some seconds. There,
generations, or pieces of them, are compared with their neighbours (gpu_check/windows.py). Without a budget, probes are put on and
taken off in turn. Off means no probe at all.
"""

import json
import random
import re
import shutil
import time
import urllib.request
from contextlib import contextmanager
from statistics import mean, median

from gpu_check import arrow, process, windows
from gpu_check.process import CommandFailed, Dialogue

ADMIN = "127.0.0.1:19411"
# The most for the measurement of one engine, s.
TIME = 430
# What may be needed after it, to end all and to read the segments, s.
AFTER = 45
# Of one round with probes or without, s.
ROUND = 4
# The budget is kept over a minute: before one has passed, probes cost more. Half of it, s.
HALF_WARM = 30
# How long the engine generates until cudasnoop is asked for its own estimate, which is of a minute, s.
STRETCH = 60


def check_graphs(bench, name):
    within_budget(bench, name, "graphs")


def check_eager(bench, name):
    within_budget(bench, name, "eager")


def check_exact(bench, name):
    if bench.vllm is None:
        bench.table.skipped(name, "no --vllm SITE was given")
        return
    for mode in ("graphs", "eager"):
        in_turn(bench, f"{name}: {mode}", mode)


def within_budget(bench, name, mode):
    """The engine beside windows that come as `serve` likes."""
    if bench.vllm is None:
        bench.table.skipped(name, "no --vllm SITE was given")
        return
    folder = bench.work / f"{name}-segments"
    stretches, own = [], []
    with serving(bench, name, ["--rolling", folder, "--disk", "256MiB", "--idle-after", "10s"]):
        with engine_of(bench, mode, {}) as engine:
            generate(bench, engine, HALF_WARM)
            idle, all_of_them = (int(metric(f"cudasnoop_{kind}processes")) for kind in ("idle_", ""))
            bench.table.information(
                name, "processes that have not begun to use CUDA, and so have no probes", f"{idle} of {all_of_them}",
                note=f"cudasnoop_idle_processes of cudasnoop_processes, after {HALF_WARM} s of generating",
            )
            bench.keep(f"{name}-first-metrics.txt", ask("metrics") or "")
            generate(bench, engine, HALF_WARM)
            until = time.monotonic() + bench.left(TIME + AFTER) - AFTER
            while (left := int(until - time.monotonic())) >= 5:
                stretches.append(generate(bench, engine, min(STRETCH, left)))
                own.append([metric("cudasnoop_overhead_ratio"), metric("cudasnoop_window_ratio")])
            bench.keep(f"{name}-last-metrics.txt", ask("metrics") or "")
    found = [json.loads(text) for path in sorted(folder.glob("cudasnoop-*")) for text in arrow.texts(path)]
    if not bench.keep_recordings:
        shutil.rmtree(folder, ignore_errors=True)
    pieces = [moments for stretch in stretches for moments in stretch["pieces"]]
    opened = windows.windows_of(found)
    bench.keep(f"{name}-moments.json", json.dumps({"pieces": pieces, "windows": opened, "own": own}))
    add_cost(bench.table, name, pieces, opened, {fact["fact"] for fact in found}, own)


def add_cost(table, name, pieces, opened, kinds, own):
    """The rows. `kinds`: of the facts that there were; `own`: cudasnoop's [overhead, time in windows], again and again."""
    cost = windows.cost(pieces, opened)
    if cost is None:
        why = "too few, or windows were always open"
        table.information(name, "what windows cost", None, note=f"{len(pieces)} pieces, {len(opened)} windows: {why}")
        return
    lost = "; some rows were not written, windows may be among them" if "unwritten" in kinds else ""
    steady = "memory calls" if "torch_sampled" in kinds else "memory calls and PyTorch's reports"
    overhead, seen = ([ratios[which] for ratios in own] for which in (0, 1))
    table.information(
        name, "share of its time that the engine loses while a window is open", str(cost.within),
        note=f"95 % of resampled values in brackets; {cost.generations:,} pieces of generations, {cost.windows:,} windows{lost}",
    )
    table.information(
        name, "share of the time in windows", f"{cost.share_within:.4f}",
        note=f"by the window facts; cudasnoop_window_ratio {ratio(seen)}; another {cost.share_beside:.3f} of the time is within "
        f"{windows.STEP * windows.STEPS / 1e9:.1f} s of one, where probes are attached and taken off",
    )
    table.information(
        name, "share of its time that the engine loses by windows, on the whole", str(cost.whole),
        note=f"the time beside them included; without it, loss times share: {cost.by_windows}; "
        f"cudasnoop_overhead_ratio {ratio(overhead)}, which has all probes; what is always on ({steady}) is not in this "
        "measure: it costs its hits times the price of one",
    )
    table.information(
        name, "the same estimate, half way between windows, where nothing is lost", str(cost.null or "unknown"),
        note="0 should be in the interval",
    )


def in_turn(bench, name, mode):
    """Rounds with all probes and without any."""
    label = name.replace(": ", "-")
    with serving(bench, label, ["--max-overhead", "off"]):
        # Whoever was idle before a switch is not known to be so after it: the engine goes without compile workers.
        with engine_of(bench, mode, {"TORCHINDUCTOR_COMPILE_THREADS": "1"}) as engine:
            bench.keep(f"{label}-first-metrics.txt", ask("metrics") or "")
            rounds, until = [], time.monotonic() + bench.left(TIME)
            while time.monotonic() < until - 3 * ROUND:
                rounds.append({state: one(bench, engine, state) for state in ("on", "off")})
                bench.keep(f"{label}-rounds.json", json.dumps(rounds))
    traced, bare = ([speed(each[state]) for each in rounds] for state in ("on", "off"))
    ratios = [on / off for on, off in zip(traced, bare)]
    low, high = interval(ratios)
    bench.table.information(
        name, "tokens a second with probes, and without", f"{median(traced):,.0f}", f"{median(bare):,.0f}",
        f"{mean(ratios):.3f} times (95 % of resampled means: {low:.3f} to {high:.3f}); {len(rounds)} rounds of {ROUND} s each, "
        "in turn",
    )


@contextmanager
def serving(bench, label, options):
    words = [bench.program, "serve", "--exe", "python*", "--exe", "pt_main_thread", "--listen", "127.0.0.1:0", "--admin", ADMIN]
    with open(bench.artefacts / f"{label}-serve.txt", "w", encoding="utf-8") as stderr:
        serve = process.start([*words, *options], stderr=stderr)
    try:
        wait_for(bench, lambda: ask("readyz") is not None)
        yield
    finally:
        process.stop(serve)


@contextmanager
def engine_of(bench, mode, environment):
    """The engine, ready. How it ends is of no interest: nothing that was measured may depend on it."""
    script, _ = bench.script("vllm_speed")
    with Dialogue([*script, mode], env={"PYTHONPATH": str(bench.vllm), **environment}) as engine:
        engine.hear(bench.left(200))
        yield engine


def one(bench, engine, state):
    """One round: what the engine said of its generations. The first moments after a switch belong to neither."""
    urllib.request.urlopen(urllib.request.Request(f"http://{ADMIN}/api/v1/probes/{state}", method="PUT"), timeout=10).close()
    wait_for(bench, lambda: json.loads(ask("api/v1/probes"))["on"] is (state == "on"))
    generate(bench, engine, 2)
    return generate(bench, engine, ROUND)


def generate(bench, engine, seconds):
    """Tells the engine to generate; what it said of its generations."""
    engine.say(str(seconds))
    return json.loads(engine.hear(bench.left(seconds + 60)))


def speed(said):
    """Tokens a second of a round."""
    return said["tokens"] * len(said["generations"]) / sum(end - begin for begin, end in said["generations"]) * 1e9


def ratio(values):
    """Some of cudasnoop's ratios as one, for people."""
    return f"{mean(values):.4f}" if values else "unknown"


def interval(ratios, repeats=2000):
    """Where 95 % of the means of resampled rounds lie."""
    chance = random.Random(1)
    means = sorted(mean(chance.choices(ratios, k=len(ratios))) for _ in range(repeats))
    return means[repeats // 40], means[-repeats // 40]


def metric(name):
    """The sum of a metric's series; 0 where there is none."""
    values = re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)", ask("metrics") or "", re.MULTILINE)
    return sum(map(float, values))


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
