"""The machine that the proof ran on."""

import json
import platform
import shutil
import subprocess
import sys
from datetime import datetime, timezone

TORCH = """
import json, torch
properties = torch.cuda.get_device_properties(0)
print(json.dumps({
    "torch": torch.__version__,
    "cuda": torch.version.cuda,
    "card": properties.name,
    "card memory": f"{properties.total_memory / 2**30:.1f} GiB",
    "cards": torch.cuda.device_count(),
    "compute capability": f"{properties.major}.{properties.minor}",
}))
"""


def describe():
    """Facts for the head of the report. What cannot be learnt is named as unknown."""
    facts = {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "kernel": platform.release(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        "driver": _driver(),
        "nvcc": _nvcc(),
    }
    done = _run([sys.executable, "-c", TORCH], timeout=120)
    if done and done.returncode == 0:
        facts.update(json.loads(done.stdout.splitlines()[-1]))
    else:
        last = done.stderr.strip().splitlines()[-1:] if done else ["no answer"]
        facts["torch"] = f"unknown: {' '.join(last)}"
    return facts


def _driver():
    done = _run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])
    if done and done.returncode == 0 and done.stdout.strip():
        return done.stdout.split()[0]
    return "unknown"


def _nvcc():
    done = _run(["nvcc", "--version"])
    if not done or done.returncode != 0:
        return "none"
    release = [line for line in done.stdout.splitlines() if "release" in line]
    return release[0].split("release", 1)[1].strip() if release else "unknown"


def _run(command, timeout=30):
    if shutil.which(command[0]) is None:
        return None
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except (subprocess.TimeoutExpired, OSError):
        return None
