#!/usr/bin/env python3
"""Seconds per token of Hugging Face accelerate with all decoder layers on disk.

  accelerate_disk.py CHECKPOINT [--tokens N]

Loads the checkpoint with device_map sending every decoder layer and the output matrix to "disk"
(read back from the safetensors files at each forward pass), decodes N tokens greedily on the CPU
and prints seconds per token and peak memory. The page cache is dropped before, where allowed.
Needs: pip install torch transformers accelerate.
"""

import argparse
import resource
import tempfile
import time

import torch
from transformers import AutoConfig, AutoModelForCausalLM


def drop_page_cache():
    try:
        with open("/proc/sys/vm/drop_caches", "w") as f:
            f.write("1")
        return True
    except OSError:
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--tokens", type=int, default=3)
    arguments = parser.parse_args()
    config = AutoConfig.from_pretrained(arguments.checkpoint)
    device_map = {"model.embed_tokens": "cpu", "model.norm": "cpu", "model.rotary_emb": "cpu",
                  "lm_head": "disk"}
    for i in range(config.num_hidden_layers):
        device_map[f"model.layers.{i}"] = "disk"
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        model = AutoModelForCausalLM.from_pretrained(
            arguments.checkpoint, device_map=device_map, offload_folder=folder,
            dtype=getattr(config, "dtype", None) or torch.float16)
        ids = torch.tensor([[1, 2, 3]])
        output = model(ids, use_cache=True)
        times = []
        for _ in range(arguments.tokens):
            dropped = drop_page_cache()
            start = time.perf_counter()
            next_id = output.logits[:, -1:].argmax(-1)
            output = model(next_id, past_key_values=output.past_key_values, use_cache=True)
            times.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print("seconds per token:", " ".join(f"{t:.2f}" for t in times),
          f"| page cache dropped before each: {dropped} | peak RSS {peak / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
