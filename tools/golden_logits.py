#!/usr/bin/env python3
"""Copies a small model and rows of golden logits into tests/golden, for tests of whole models.

    pip install numpy
    python tools/golden_logits.py ../shared tests/golden

Nothing is computed here. The logits are transformers 5.17's in float32 on the exactly dequantised weights of
checkpoints made by exllamav3 1.6.5; a few rows are kept, and which ones is written beside them. The prompts
and answers are greedy continuations of the small trained model's bf16 source, which its 4-bit conversion in
models/tiny-glm gives as well.
"""

import shutil
import sys
from pathlib import Path

import numpy as np

from golden_tiles import read, write

# A checkpoint small enough to be copied whole: a quantised embedding table, 1.5 bits, sides padded to 128.
SMALL = "llama-even-1.5bpw-mul1-eb4"
SMALL_FILES = ["config.json", "model.safetensors", "tokenizer.json"]
SMALL_ROWS = np.arange(3, 96, 4, dtype=np.int32)

# The checkpoint that is models/tiny-glm: only logits are copied.
TRAINED = "tiny-glm-4bpw-mul1"
TRAINED_ROWS = np.array([0, 1, 17, 42, 63, 64, 96, 127], dtype=np.int32)


def logits(golden, rows):
    return {"ids": golden["ids"], "rows": rows, "logits_f32": golden["logits_f32"][rows]}


def main(shared, target):
    conversions = shared / "golden" / "conversions"
    for name, rows in [(SMALL, SMALL_ROWS), (TRAINED, TRAINED_ROWS)]:
        (target / name).mkdir(exist_ok=True)
        tensors = logits(read(conversions / name / "golden.safetensors"), rows)
        if name == TRAINED:
            source = read(shared / "models" / "tiny-glm" / "golden.safetensors")
            tensors |= {key: value for key, value in source.items() if key.startswith("recall_")}
        write(target / name / "golden.safetensors", tensors)
    for file in SMALL_FILES:
        shutil.copyfile(conversions / SMALL / file, target / SMALL / file)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
