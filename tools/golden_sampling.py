#!/usr/bin/env python3
"""Passes random logits through transformers' own filters, as values to compare ours with.

    pip install numpy torch transformers
    python tools/golden_sampling.py > tests/golden/sampling.json

Each case is a row of logits with a prompt and an answer so far. It is penalised for repetitions (`penalised`), then
divided by the temperature and cut to typical tokens (`typical`: the ids that are left), or cut by top-k, top-p and
min-p (`kept`: the ids that are left, the most probable first, and `probabilities`, theirs).
"""

import json

import numpy as np
import torch
from transformers.generation import logits_process as filters

VOCAB = 48
CASES = [
    # repetition, temperature, typical, top_k, top_p, min_p
    (1.3, 1.0, 0.9, 20, 0.9, 0.0),
    (1.05, 0.7, 0.5, 40, 0.95, 0.05),
    (2.0, 1.5, 0.2, 5, 0.6, 0.0),
    (0.8, 0.3, 0.95, 47, 0.99, 0.01),
    (1.1, 2.0, 0.7, 3, 0.999, 0.3),
    (1.2, 1.0, 0.05, 48, 0.05, 0.0),
]


def left(scores):
    return [int(index) for index in torch.nonzero(torch.isfinite(scores[0]))[:, 0]]


def case(number, repetition, temperature, typical, top_k, top_p, min_p):
    random = np.random.default_rng(number)
    logits = torch.tensor(random.normal(0.0, 2.5, (1, VOCAB)).astype(np.float32))
    prompt, answer = (random.integers(0, VOCAB, 6).tolist() for _ in range(2))
    ids = torch.tensor([prompt + answer])
    penalised = filters.RepetitionPenaltyLogitsProcessor(repetition)(ids, logits.clone())
    warm = filters.TemperatureLogitsWarper(temperature)(ids, penalised)
    kept = filters.TopKLogitsWarper(top_k)(ids, warm)
    kept = filters.TopPLogitsWarper(top_p)(ids, kept)
    if min_p > 0:
        kept = filters.MinPLogitsWarper(min_p)(ids, kept)
    probabilities = torch.softmax(kept.double(), -1)[0]
    order = sorted(left(kept), key=lambda token: -probabilities[token])
    return {
        "logits": logits[0].tolist(),
        "prompt": prompt,
        "answer": answer,
        "repetition": repetition,
        "temperature": temperature,
        "typical_mass": typical,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "penalised": penalised[0].tolist(),
        "typical": left(filters.TypicalLogitsWarper(typical)(ids, warm)),
        "kept": order,
        "probabilities": probabilities[order].tolist(),
    }


def main():
    cases = [json.dumps(case(number, *settings)) for number, settings in enumerate(CASES)]
    print("[\n" + ",\n".join(cases) + "\n]")


if __name__ == "__main__":
    main()
