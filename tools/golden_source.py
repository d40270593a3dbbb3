#!/usr/bin/env python3
"""Makes a small random model and its logits by transformers: a folder of tests/golden/sources.

    pip install numpy safetensors torch transformers
    python tools/golden_source.py tests/golden/sources/qwen3

The folder holds a config.json, written by hand in the way that published ones are, with sizes as small as the
architecture allows (2 layers, a few dozen channels and tokens of vocabulary). Added are model.safetensors, random
weights in f16 under the names that checkpoints have, and golden.safetensors: `ids`, and the `logits` that transformers
computes in float32 on a CPU. They are refused if float64 gives others, as it does where a router is
nearly undecided: take another seed then.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

IDS = 48


def randomise(model, seed):
    """Random numbers in everything that is trained, such that no part of the model can be left out unseen."""
    generator = torch.Generator().manual_seed(seed)
    buffers = [(name, buffer) for name, buffer in model.named_buffers() if name.endswith("e_score_correction_bias")]
    for name, tensor in sorted([*model.named_parameters(), *buffers]):
        normal = torch.randn(tensor.shape, generator=generator)
        if "norm" in name:
            value = 1 + 0.25 * normal
        elif tensor.dim() == 1:
            value = 0.25 * normal
        elif "embed_tokens" in name:
            value = normal
        else:
            value = 1.5 * normal * tensor.shape[-1] ** -0.5
        tensor.data.copy_(value.half())


def logits(model, ids, dtype):
    with torch.no_grad():
        return model.to(dtype)(torch.from_numpy(ids.astype(np.int64))[None]).logits[0].numpy()


def main(folder, seed):
    config = AutoConfig.from_pretrained(folder)
    plain = dict(attn_implementation="eager", experts_implementation="eager")
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, **plain).eval()
    randomise(model, seed)
    ids = np.random.default_rng(seed).integers(config.vocab_size, size=IDS, dtype=np.int32)
    exact = logits(model, ids, torch.float64)
    golden = logits(model, ids, torch.float32)
    error = np.linalg.norm(golden - exact, axis=-1) / np.linalg.norm(exact, axis=-1)
    assert error.max() < 1e-5, f"float32 is {error.max():.1e} from float64"
    with tempfile.TemporaryDirectory() as written:
        model.half().save_pretrained(written)
        tensors = load_file(f"{written}/model.safetensors")
    save_file(tensors, folder / "model.safetensors")
    save_file({"ids": ids, "logits": golden}, folder / "golden.safetensors")
    print(f"{folder}: {sum(tensor.size for tensor in tensors.values())} weights, {error.max():.1e} from float64")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="+", help="with a config.json")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for folder in arguments.folder:
        main(folder, arguments.seed)
