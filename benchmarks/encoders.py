"""What an encoder costs over the bare network: `encoder.run` on prepared photographs against the model on one tensor.

Architectures of the true size, built from their configurations with random weights, saved as the hub lays them out and
opened by name through the code that users run. Both sides are timed in turn (A B A B ...), and the median of the ratios is
printed; on the CPU the time of the process counts, so that a machine that is shared does not decide. Results go between the
markers of RESULTS.md with --record.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from faceblind.encoders import open_encoder
from recording import record

IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
CLIP = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
CROP = {"do_center_crop": True, "crop_size": 224, "resample": 3}
SQUARE = {"image_processor_type": "DINOv3ViTImageProcessor", "size": {"height": 224, "width": 224}, "resample": 2}
TEXT = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 64}


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--runs", type=int, default=7)
    arguments.add_argument("--batch", type=int, default=16)
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--precision", default="float32")
    arguments.add_argument("--record", action="store_true", help="write the figures into RESULTS.md")
    options = arguments.parse_args()
    torch.set_num_threads(options.threads)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    rows = []
    for name, build, reference, preprocessing in ARCHITECTURES:
        with tempfile.TemporaryDirectory() as folder:
            torch.manual_seed(0)
            build().save_pretrained(folder)
            (Path(folder) / "preprocessor_config.json").write_text(json.dumps(preprocessing))
            row = measure(name, getattr(transformers, reference), Path(folder), options)
        print(row, flush=True)
        rows.append(row)
    if options.record:
        head = (
            f"{date.today().isoformat()}, {options.device}, {options.precision}, {options.threads} thread(s) of "
            f"{os.cpu_count()} cores, torch {torch.__version__}, transformers {transformers.__version__}, batches of "
            f"{options.batch}, random weights of the true size, `python benchmarks/encoders.py --record`, median of "
            f"{options.runs} paired runs (min to max). Kept: images/s of `encoder.run` on prepared photographs over those of "
            "the bare model on one tensor. Agreement: the largest difference between a photograph's vector alone and in a "
            "batch, over the vector's length. CPU figures are of process time: images a second of one busy core.\n"
        )
        columns = (
            "| encoder | kept (bar: 0.95) | images/s | preparing a 640x480 photograph | agreement between batches |"
        )
        record("encoders", "\n".join([head, columns, "|---|---|---|---|---|", *rows]))
    return 0


def measure(name: str, reference: Any, folder: Path, options: argparse.Namespace) -> str:
    where = {"device": options.device, "precision": options.precision}
    encoder = open_encoder(name, weights=folder, threads=options.threads, **where)
    rng = np.random.default_rng(0)
    photos = [rng.integers(0, 256, (480, 640, 3), dtype=np.uint8) for _ in range(options.batch)]
    start = time.process_time()
    prepared = [encoder.prepare(photo) for photo in photos]
    preparing = (time.process_time() - start) / len(photos)
    model = reference.from_pretrained(folder, dtype=getattr(torch, options.precision)).to(options.device).eval()
    tensor = torch.from_numpy(np.stack(prepared)).to(options.device, getattr(torch, options.precision))

    def bare() -> object:
        with torch.inference_mode():
            out = model(pixel_values=tensor)
            return (out.image_embeds if "image_embeds" in out else out.pooler_output).float().cpu()

    clock = time.process_time if options.device == "cpu" else time.perf_counter
    kept, ours = ratio(lambda: encoder.run(prepared), bare, options.runs, clock)
    whole = encoder.run(prepared)
    alone = np.concatenate([encoder.run([array]) for array in prepared])
    agreement = (np.abs(whole - alone).max(axis=1) / np.linalg.norm(whole, axis=1)).max()
    return f"| {name} | {kept} | {len(photos) / ours:.1f} | {1000 * preparing:.1f} ms | {agreement:.0e} |"


def ratio(
    ours: Callable[[], object], bare: Callable[[], object], runs: int, clock: Callable[[], float]
) -> tuple[str, float]:
    """Time both in turn; return 'median (min to max)' of bare / ours, and our median seconds."""
    ours(), bare()
    ratios, seconds = [], []
    for i in range(runs):
        took = {}
        for which in (ours, bare) if i % 2 else (bare, ours):  # whoever comes second finds warmer caches
            start = clock()
            which()
            took[which] = clock() - start
        ratios.append(took[bare] / took[ours])
        seconds.append(took[ours])
    return f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})", statistics.median(seconds)


def _clip() -> Any:
    vision = {"hidden_size": 768, "intermediate_size": 3072, "patch_size": 32}
    return transformers.CLIPModel(transformers.CLIPConfig(vision_config=vision, text_config=TEXT, projection_dim=512))


def _dinov2() -> Any:
    size = {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 6, "image_size": 518}
    return transformers.Dinov2Model(transformers.Dinov2Config(**size))


def _dinov3() -> Any:
    return transformers.DINOv3ViTModel(transformers.DINOv3ViTConfig(num_register_tokens=4))


def _convnext() -> Any:
    return transformers.DINOv3ConvNextModel(transformers.DINOv3ConvNextConfig())


ARCHITECTURES = (
    (
        "clip-vit-b32-openai",
        _clip,
        "CLIPVisionModelWithProjection",
        CLIP | CROP | {"image_processor_type": "CLIPImageProcessor", "size": 224},
    ),
    (
        "dinov2-small",
        _dinov2,
        "Dinov2Model",
        IMAGENET | CROP | {"image_processor_type": "BitImageProcessor", "size": 256},
    ),
    ("dinov3-vit-small", _dinov3, "DINOv3ViTModel", IMAGENET | SQUARE),
    ("dinov3-convnext-tiny", _convnext, "DINOv3ConvNextModel", IMAGENET | SQUARE),
)

if __name__ == "__main__":
    raise SystemExit(main())
