"""Writes tests/golden/gguf-blocks.safetensors: blocks of each of GGUF's number formats with random bytes, and the
numbers that llama.cpp's Python package decodes them to.

    pip install gguf numpy safetensors
    python tools/golden_gguf.py
"""

from pathlib import Path

import numpy
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize
from safetensors.numpy import save_file

BLOCKS = 6
# Where the f16 scales of each format are; random bytes there could be infinite.
SCALES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}

random = numpy.random.default_rng(1)
tensors = {}
for name, scales in SCALES.items():
    kind = GGMLQuantizationType[name]
    _, size = GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (BLOCKS, size), dtype=numpy.uint8)
    for at in scales:
        blocks[:, at : at + 2] = random.normal(0, 0.05, (BLOCKS, 1)).astype(numpy.float16).view(numpy.uint8)
    tensors[f"{name.lower()}.blocks"] = blocks
    tensors[f"{name.lower()}.numbers"] = dequantize(blocks, kind).astype(numpy.float32)
save_file(tensors, Path(__file__).parent.parent / "tests/golden/gguf-blocks.safetensors")
