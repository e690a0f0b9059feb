"""One command from nothing to the shipped checkpoint; each stage resumes from its checkpoint.

python -m models.train                  # two busy CPU cores: about two and a half hours
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

STAGES = (
    "train_autoencoder",
    "encode",
    "train_denoiser",
    "export",
    "classifier",
    "demo_assets",
    "curve",
)
WITHOUT_WORK = ("demo_assets",)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--work", type=Path, default=Path("models/runs"), help="checkpoints and data, not in git"
    )
    parser.add_argument("--from-stage", choices=STAGES, default=STAGES[0])
    args = parser.parse_args()
    for stage in STAGES[STAGES.index(args.from_stage) :]:
        started = time.monotonic()
        print(f"== {stage}", flush=True)
        command = [sys.executable, "-m", f"models.{stage}"]
        if stage not in WITHOUT_WORK:
            command += ["--work", str(args.work)]
        subprocess.run(command, check=True)
        print(f"== {stage}: {(time.monotonic() - started) / 60:.1f} min", flush=True)


if __name__ == "__main__":
    main()
