#!/usr/bin/env python3
"""Copies a few layers and embedding rows out of the golden conversions into tests/golden/codec.safetensors.

    pip install numpy
    python tools/golden_tiles.py ../shared/golden/conversions tests/golden/codec.safetensors

The conversions are EXL3 checkpoints made by exllamav3 1.6.5 on an H200, each with a golden.safetensors of
values that exllamav3 decoded and computed itself. Nothing is computed here: one layer for each codebook and
width is copied as it is, except that of the decoded inner weights only the first 32 rows are kept (two rows
of tiles) to keep the file small. Needs no package but numpy; the file is the same in each run.
"""

import json
import sys
from pathlib import Path

import numpy as np

INNER_ROWS = 32
EMBEDDING_ROWS = 16

# codebook-bits: the conversion and the layer that is copied.
LAYERS = {
    "3inst-4": ("llama-even-4bpw-3inst", "model.layers.0.self_attn.q_proj"),
    "mcg-2": ("llama-even-2bpw-mcg", "model.layers.0.self_attn.k_proj"),  # 32 outputs padded to 128
    "mul1-1.5": ("llama-even-1.5bpw-mul1-eb4", "model.layers.0.self_attn.o_proj"),
    "mul1-2": ("tiny-glm-2bpw-mul1", "model.layers.1.mlp.experts.7.down_proj"),
    "mul1-2.5": ("llama-even-3.5bpw-mul1-hb2.5", "lm_head"),  # 1,000 outputs padded to 1,024
    "mul1-3": ("tiny-glm-3bpw-mul1", "model.layers.1.mlp.experts.7.down_proj"),
    "mul1-3.5": ("llama-even-3.5bpw-mul1-hb2.5", "model.layers.0.self_attn.q_proj"),
    "mul1-4": ("glm4-moe-lite-4bpw-mul1", "model.layers.2.self_attn.q_a_proj"),
    "mul1-5": ("llama-even-5bpw-mul1", "model.layers.0.mlp.down_proj"),  # 320 inputs padded to 384
    "mul1-6": ("qwen2-6bpw-mul1", "model.layers.0.self_attn.q_proj"),  # has a bias
}
EMBEDDING = ("llama-even-1.5bpw-mul1-eb4", "model.embed_tokens")

NUMPY = {"F16": np.float16, "F32": np.float32, "I16": np.int16, "I32": np.int32}
NAMES = {np.dtype(kind): name for name, kind in NUMPY.items()}


def read(path):
    """The tensors of a safetensors file that numpy has a type for, by name."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    tensors = {}
    for name, info in json.loads(data[8 : 8 + size]).items():
        if info.get("dtype") in NUMPY:
            start, end = info["data_offsets"]
            values = np.frombuffer(data[8 + size + start : 8 + size + end], NUMPY[info["dtype"]])
            tensors[name] = values.reshape(info["shape"])
    return tensors


def write(path, tensors):
    """A safetensors file: the length of the header, the header padded to 8 bytes, the values."""
    header, offset = {}, 0
    for name, values in tensors.items():
        end = offset + values.nbytes
        header[name] = {"dtype": NAMES[values.dtype], "shape": values.shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    body = b"".join(np.ascontiguousarray(values).tobytes() for values in tensors.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def main(conversions, target):
    copied = {}
    for label, (conversion, layer) in LAYERS.items():
        model = read(conversions / conversion / "model.safetensors")
        golden = read(conversions / conversion / "golden.safetensors")
        codebook, bits = label.split("-")
        markers = [marker for marker in ("mcg", "mul1") if f"{layer}.{marker}" in model]
        assert markers == ([] if codebook == "3inst" else [codebook]), label
        assert model[f"{layer}.trellis"].shape[2] == 16 * float(bits), label
        for part in ("trellis", "suh", "svh", "bias"):
            if f"{layer}.{part}" in model:
                copied[f"{label}.{part}"] = model[f"{layer}.{part}"]
        copied[f"{label}.inner"] = golden[f"{layer}.inner"][:INNER_ROWS]
        copied[f"{label}.x"] = golden[f"{layer}.x"]
        copied[f"{label}.y"] = golden[f"{layer}.y"]

    conversion, table = EMBEDDING
    model = read(conversions / conversion / "model.safetensors")
    golden = read(conversions / conversion / "golden.safetensors")
    tokens, where = np.unique(golden["ids"], return_index=True)
    tokens, where = tokens[:EMBEDDING_ROWS], where[:EMBEDDING_ROWS]
    copied["embedding.trellis"] = model[f"{table}.trellis"][tokens]
    copied["embedding.signs"] = model[f"{table}.signs"]
    copied["embedding.rows"] = golden[f"{table}.rows"][where]
    # The types in descending size, so that each tensor is aligned.
    write(target, dict(sorted(copied.items(), key=lambda item: (-item[1].itemsize, item[0]))))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
