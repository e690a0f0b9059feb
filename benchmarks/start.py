"""How long from process start to the first picture, against a plain diffusers script?

    python -m benchmarks.start [--repeats 5] [--model FOLDER] [--backend inductor]

Both sides run in fresh processes, in turn, and draw the same prompt, seed, size and steps to a PNG.
`cold` starts with an empty store (it compiles), `warm` with a full one. Also: where the time goes,
and how much memory a second process adds that it shares with nobody. Last line one JSON object.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from intonaco.families.source import shipped_folder

PROMPT = "a tall girl with red hair"

DIFFUSERS_SCRIPT = """
import json, sys, time
start = time.perf_counter()
folder, output = sys.argv[1:3]
settings = json.load(open(folder + "/intonaco.json"))
import torch
from diffusers import Flux2KleinPipeline
imported = time.perf_counter()
pipeline = Flux2KleinPipeline.from_pretrained(folder, torch_dtype=torch.float32)
pipeline.set_progress_bar_config(disable=True)
loaded = time.perf_counter()
image = pipeline(
    prompt=PROMPT, generator=torch.Generator().manual_seed(7),
    num_inference_steps=settings["default_num_steps"],
    height=settings["default_height"], width=settings["default_width"],
    max_sequence_length=settings["max_sequence_length"],
    text_encoder_out_layers=tuple(settings["text_encoder_out_layers"]),
).images[0]
image.save(output)
end = time.perf_counter()
print(json.dumps({"import_s": imported - start, "load_s": loaded - imported, "draw_s": end - loaded}))
""".replace("PROMPT", repr(PROMPT))

PROGRAMS_SCRIPT = """
import json, sys, time
start = time.perf_counter()
folder, output, store, backend = sys.argv[1:5]
import intonaco.model
imported = time.perf_counter()
model = intonaco.load(folder, backend=backend, store=store)
loaded = time.perf_counter()
picture = model.generate(PROMPT, seed=7)
picture.save(output)
end = time.perf_counter()
print(json.dumps({"import_s": imported - start, "load_s": loaded - imported, "draw_s": end - loaded}))
sys.stdout.flush()
if len(sys.argv) > 5:
    sys.stdin.readline()
""".replace("PROMPT", repr(PROMPT))


def run(script: str, *arguments: str) -> dict[str, float]:
    """Run a script in a fresh process; return its phases and the whole time in seconds."""
    start = time.perf_counter()
    result = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False
    )
    total_s = time.perf_counter() - start
    if result.returncode != 0:
        raise SystemExit(f"the script failed:\n{result.stderr[-2000:]}")
    return {**json.loads(result.stdout.strip().splitlines()[-1]), "total_s": total_s}


def medians(runs: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(run[name] for run in runs), 3) for name in runs[0]}


def dirty_bytes(*arguments: str) -> list[int]:
    """Return the private dirty bytes of two processes that hold the same loaded model."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAMS_SCRIPT, *arguments, "wait"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    sizes: list[int] = []
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
        sizes.append(_private_dirty(process.pid))
    for process in processes:
        process.communicate("\n")
    return sizes


def _private_dirty(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("Private_Dirty:"))
    return 1024 * int(line.split()[1])


def same_picture(first: Path, second: Path) -> float:
    """Return the largest difference between two pictures, in levels of 255."""
    import numpy as np
    from PIL import Image

    pair = [np.asarray(Image.open(path), dtype=np.int16) for path in (first, second)]
    return float(np.abs(pair[0] - pair[1]).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--model", type=Path, default=None)
    parser.add_argument("--backend", default="inductor")
    parser.add_argument(
        "--store", type=Path, default=None, help="a full store: skips the cold start"
    )
    options = parser.parse_args()
    model = str(options.model or shipped_folder())
    result: dict[str, Any] = {"backend": options.backend, "repeats": options.repeats}
    with tempfile.TemporaryDirectory() as folder:
        store = str(options.store or Path(folder) / "store")
        ours, theirs = Path(folder) / "ours.png", Path(folder) / "theirs.png"
        arguments = (model, str(ours), store, options.backend)
        if options.store is None:
            cold = run(PROGRAMS_SCRIPT, *arguments)
            result["first_picture_s_cold"] = round(cold["total_s"], 2)
            print(f"cold: {cold}", flush=True)
        warm_runs: list[dict[str, float]] = []
        plain_runs: list[dict[str, float]] = []
        for _ in range(options.repeats):
            plain_runs.append(run(DIFFUSERS_SCRIPT, model, str(theirs)))
            warm_runs.append(run(PROGRAMS_SCRIPT, *arguments))
        warm, plain = medians(warm_runs), medians(plain_runs)
        print(f"diffusers script: {plain}\nwarm programs:    {warm}", flush=True)
        sizes = dirty_bytes(*arguments)
        result |= {
            "diffusers_script_over_first_picture_warm": round(
                plain["total_s"] / warm["total_s"], 3
            ),
            "first_picture_s_warm": warm["total_s"],
            "diffusers_script_s": plain["total_s"],
            "warm_phases": warm,
            "diffusers_phases": plain,
            "max_level_difference": same_picture(ours, theirs),
            "dirty_bytes_per_extra_process": sizes[1],
        }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
