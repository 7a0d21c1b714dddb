#!/usr/bin/env python3
"""Train the small model that ships in models/tidemill-kjv.

The model is a Llama-style decoder (transformers' LlamaForCausalLM, tied embeddings, grouped-query
attention) of about 3.3 million parameters with a byte-level BPE tokenizer of 2048 entries, trained
on the King James Bible. It exists so that a fresh checkout can run, test and benchmark the engine
on a model that writes recognisable English, without any download.

Text. Debian's packages `bible-kjv` (the reader) and `bible-kjv-text` (the data, a public domain
text) must be installed: `apt-get install bible-kjv bible-kjv-text`. The data file is compressed in
a private format, so the text is read through the reader, which prints one verse per line under one
heading per chapter; parse_chapters() checks that 1189 chapters and 31102 verses came out.

Documents. A document is one chapter: `<|begin_of_text|>`, an optional heading such as "Genesis 1",
one verse per line without its number, `<|end_of_text|>`. In training the heading is dropped half
of the time, and half of the chapters are cut in two at a random verse, so that the model also
continues prompts that start anywhere. Every 30th chapter is held out, for the tokenizer as well.

Schedule. AdamW with linear warm-up and a cosine to --final-lr-ratio over --steps. With --minutes
the schedule is stretched so that it ends no later than that: progress is the larger one of the
two fractions. A run that --minutes did not shorten is reproducible from its seed on one machine.

Every --checkpoint-minutes, at the end, and on SIGTERM or SIGINT, the complete Hugging Face
directory (fp16) is written to --out. The losses are appended to --log as JSON lines.

    python tools/train/train_kjv.py --out models/tidemill-kjv --log /tmp/train_kjv.jsonl
"""

import argparse
import contextlib
import json
import math
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils import logging as transformers_logging

BOS = "<|begin_of_text|>"
EOS = "<|end_of_text|>"
CHAPTERS = 1189
VERSES = 31102
HOLD_OUT_EVERY = 30
HOLD_OUT_FIRST = 17

# The pre-tokeniser of Llama 3.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class Chapter:
    """A heading ("1 Kings 3") and its verses, in order."""

    def __init__(self, heading):
        self.heading = heading
        self.verses = []

    def text(self, with_heading=True):
        head = [self.heading] if with_heading else []
        return "\n".join(head + self.verses) + "\n"


def parse_chapters(printed):
    """Splits the output of `bible -l9999` into chapters and checks that nothing is missing."""
    chapters = []
    for line in printed.splitlines():
        verse = re.fullmatch(r" +(\d+) (.*\S)\s*", line)
        if verse:
            if int(verse.group(1)) != len(chapters[-1].verses) + 1:
                raise SystemExit(f"verse out of order: {line!r}")
            chapters[-1].verses.append(verse.group(2))
        elif re.fullmatch(r"(?:[1-3] )?[A-Za-z ]+ \d+", line):
            chapters.append(Chapter(line))
        elif line.strip():
            raise SystemExit(f"unexpected line: {line!r}")
    verses = sum(len(c.verses) for c in chapters)
    if len(chapters) != CHAPTERS or verses != VERSES:
        raise SystemExit(f"got {len(chapters)} chapters and {verses} verses, "
                         f"expected {CHAPTERS} and {VERSES}")
    return chapters


def read_chapters():
    """The whole text from the installed Debian packages."""
    if shutil.which("bible") is None:
        raise SystemExit("needs `apt-get install bible-kjv bible-kjv-text`")
    printed = subprocess.run(["bible", "-l9999", "gen 1:1 - rev 22:21"], check=True,
                             stdout=subprocess.PIPE, stdin=subprocess.DEVNULL).stdout
    return parse_chapters(printed.decode("ascii"))


def train_tokenizer(chapters, vocab_size):
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        (c.text() for c in chapters),
        trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=[BOS, EOS],
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A {BOS}:1 $B:1",
        special_tokens=[(BOS, tokenizer.token_to_id(BOS))])
    return tokenizer


class Corpus:
    """Chapters as token ids, and the packed streams made of them."""

    def __init__(self, tokenizer, chapters):
        self.bos = tokenizer.token_to_id(BOS)
        self.eos = tokenizer.token_to_id(EOS)
        encode = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
        self.chapters = [(encode(c.heading + "\n"), [encode(v + "\n") for v in c.verses])
                         for c in chapters]

    def fixed_stream(self):
        """Whole chapters with their headings: what losses are reported on."""
        ids = []
        for heading, verses in self.chapters:
            ids += [self.bos, *heading, *sum(verses, []), self.eos]
        return ids

    def epoch_stream(self, rng):
        """The chapters in random order, some without heading, some cut in two."""
        documents = []
        for heading, verses in self.chapters:
            head = heading if rng.random() < 0.5 else []
            cut = rng.randrange(len(verses)) if rng.random() < 0.5 else 0
            if cut:
                documents.append([self.bos, *head, *sum(verses[:cut], [])])
                head = []
            documents.append([self.bos, *head, *sum(verses[cut:], []), self.eos])
        rng.shuffle(documents)
        return sum(documents, [])

    def batches(self, rng, batch, length):
        """Endless [batch, length + 1] windows, shuffled within each epoch."""
        while True:
            stream = np.array(self.epoch_stream(rng), dtype=np.int64)
            stream = stream[rng.randrange(length):]
            windows = [stream[i:i + length + 1] for i in range(0, len(stream) - length, length)]
            rng.shuffle(windows)
            for i in range(0, len(windows) - batch + 1, batch):
                yield torch.from_numpy(np.stack(windows[i:i + batch]))


@torch.no_grad()
def mean_loss(model, stream, length, autocast, batch=16):
    """Mean negative log likelihood in nats per token over consecutive windows."""
    model.eval()
    total, count = 0.0, 0
    windows = [stream[i:i + length + 1] for i in range(0, len(stream) - 1, length)]
    full = [w for w in windows if len(w) == length + 1]
    groups = [full[i:i + batch] for i in range(0, len(full), batch)]
    groups += [[w] for w in windows if 1 < len(w) <= length]
    for group in groups:
        ids = torch.tensor(group)
        with autocast():
            logits = model(input_ids=ids[:, :-1], use_cache=False).logits
        loss = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten(), reduction="sum")
        total += loss.item()
        count += ids[:, 1:].numel()
    model.train()
    return total / count


def export(model, tokenizer, out):
    """Writes the directory that transformers and the engine load; the weights become fp16.

    Files are replaced one by one by complete ones, so that a reader never sees half a file.
    """
    half = LlamaForCausalLM(model.config)
    half.load_state_dict(model.state_dict())
    half.to(torch.float16)
    half.generation_config = GenerationConfig(
        bos_token_id=model.config.bos_token_id, eos_token_id=model.config.eos_token_id,
        do_sample=True, temperature=0.8, top_p=0.95)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".export-") as scratch:
        half.save_pretrained(scratch)
        PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, bos_token=BOS, eos_token=EOS,
            model_max_length=model.config.max_position_embeddings,
            clean_up_tokenization_spaces=False,
        ).save_pretrained(scratch)
        # transformers 5 writes a class name here that version 4 does not know; both know this one.
        settings = Path(scratch, "tokenizer_config.json")
        fields = json.loads(settings.read_text())
        fields["tokenizer_class"] = "PreTrainedTokenizerFast"
        settings.write_text(json.dumps(fields, indent=2) + "\n")
        for path in Path(scratch).iterdir():
            path.chmod(0o644)
            path.replace(out / path.name)


def build_model(args, tokenizer):
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=args.hidden, intermediate_size=args.ffn, num_hidden_layers=args.layers,
        num_attention_heads=args.heads, num_key_value_heads=args.kv_heads,
        max_position_embeddings=512, rms_norm_eps=1e-5, rope_theta=10000.0,
        tie_word_embeddings=True, initializer_range=0.02,
        bos_token_id=tokenizer.token_to_id(BOS), eos_token_id=tokenizer.token_to_id(EOS),
        pad_token_id=None, attn_implementation="sdpa"))


def build_optimizer(model, args):
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    return torch.optim.AdamW(
        [{"params": decayed, "weight_decay": args.weight_decay},
         {"params": plain, "weight_decay": 0.0}],
        lr=args.lr, betas=(0.9, 0.95), eps=1e-8)


def learning_rate(args, step, progress):
    if step < args.warmup:
        return args.lr * (step + 1) / args.warmup
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return args.lr * (args.final_lr_ratio + (1 - args.final_lr_ratio) * cosine)


def train(args):
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    rng = random.Random(args.seed)
    started = time.monotonic()
    stop = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.append(True))

    chapters = read_chapters()
    is_held = lambda i: i % HOLD_OUT_EVERY == HOLD_OUT_FIRST
    held = [c for i, c in enumerate(chapters) if is_held(i)]
    rest = [c for i, c in enumerate(chapters) if not is_held(i)]
    tokenizer = train_tokenizer(rest, args.vocab)
    corpus = Corpus(tokenizer, rest)
    held_stream = Corpus(tokenizer, held).fixed_stream()
    seen_stream = Corpus(tokenizer, rest[::HOLD_OUT_EVERY]).fixed_stream()

    model = build_model(args, tokenizer)
    optimizer = build_optimizer(model, args)
    autocast = contextlib.nullcontext
    if args.bf16:
        autocast = lambda: torch.autocast("cpu", dtype=torch.bfloat16)
    log = args.log.open("w") if args.log else None

    def report(**fields):
        fields["minutes"] = round((time.monotonic() - started) / 60, 2)
        line = json.dumps(fields)
        print(line, flush=True)
        if log:
            print(line, file=log, flush=True)

    report(parameters=sum(p.numel() for p in model.parameters()),
           train_tokens=len(corpus.fixed_stream()), held_out_tokens=len(held_stream),
           train_bytes=sum(len(c.text()) for c in rest),
           held_out_bytes=sum(len(c.text()) for c in held),
           train_chapters=len(rest), held_out_chapters=len(held))

    last_checkpoint = time.monotonic()
    recent = []
    step = 0
    for ids in corpus.batches(rng, args.batch, args.length):
        elapsed = (time.monotonic() - started) / 60
        progress = step / args.steps
        if args.minutes:
            progress = max(progress, elapsed / args.minutes)
        if progress >= 1 or stop:
            break
        rate = learning_rate(args, step, progress)
        for group in optimizer.param_groups:
            group["lr"] = rate
        with autocast():
            logits = model(input_ids=ids[:, :-1], use_cache=False).logits
        loss = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        recent.append(loss.item())
        step += 1
        if step % args.log_every == 0:
            report(step=step, lr=round(rate, 7), loss=round(sum(recent) / len(recent), 4))
            recent = []
        if time.monotonic() - last_checkpoint > 60 * args.checkpoint_minutes:
            report(step=step, held_out=round(mean_loss(model, held_stream, args.length, autocast), 4))
            export(model, tokenizer, args.out)
            last_checkpoint = time.monotonic()

    export(model, tokenizer, args.out)
    final = LlamaForCausalLM.from_pretrained(args.out, dtype=torch.float32)
    report(step=step, tokens_seen=step * args.batch * args.length, final=True,
           train=round(mean_loss(final, seen_stream, args.length, contextlib.nullcontext), 4),
           held_out=round(mean_loss(final, held_stream, args.length, contextlib.nullcontext), 4))


def main():
    transformers_logging.disable_progress_bar()
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="directory to write")
    parser.add_argument("--log", type=Path, help="JSON lines with the losses")
    parser.add_argument("--seed", type=int, default=1611)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True,
                        help="bf16 autocast (faster where the CPU has bf16 instructions)")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--minutes", type=float, default=0, help="end no later than this; 0: no limit")
    parser.add_argument("--checkpoint-minutes", type=float, default=5)
    parser.add_argument("--log-every", type=int, default=50)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=256, help="tokens per sequence")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--final-lr-ratio", type=float, default=0.02)
    parser.add_argument("--warmup", type=int, default=100, help="steps")
    parser.add_argument("--weight-decay", type=float, default=0.5)
    parser.add_argument("--vocab", type=int, default=2048)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--ffn", type=int, default=640)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--kv-heads", type=int, default=2)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
