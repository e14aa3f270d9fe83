"""Opening hub checkpoints: `transformers` builds the network, and whatever it would gloss over is refused here.

The library fills tensors that a checkpoint lacks with random numbers and goes on. Its vectors look like any others, so
every missing, foreign or mis-shaped tensor is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from faceblind._errors import EncoderError, brief
from faceblind.encoders.device import choose_device, import_extra, import_torch
from faceblind.encoders.entry import OpenOptions
from faceblind.encoders.hub_families import Family, describe, family_of
from faceblind.encoders.hub_files import HubFolder
from faceblind.encoders.hub_positions import place_positions
from faceblind.encoders.hub_spec import read_preprocessing
from faceblind.encoders.torch_encoder import TorchEncoder

_SHOWN = 4


def open_hub_encoder(
    find: Callable[[], HubFolder],
    options: OpenOptions,
    *,
    name: str,
    expected: Mapping[str, Any] | None = None,
    released: Mapping[str, Any] | None = None,
) -> TorchEncoder:
    """Open a checkpoint in the hub's layout.

    Parameters
    ----------
    find
        Gives its files; called once the packages and the device are known to be there.
    name
        For the fingerprint and messages.
    expected
        ``model_type`` and other values that `name` promises of the (vision) configuration.
    released
        See `read_preprocessing`.

    Raises
    ------
    EncoderError
        The device is not there, or the checkpoint is incomplete, damaged or another architecture.
    MissingExtraError
        torch or transformers is not installed.
    """
    torch = import_torch(f"encoder {name!r}")
    transformers = import_extra("transformers", f"encoder {name!r}")
    choose_device(torch, options.device, options.precision)
    files = find()
    raw = files.config()
    _check_type(raw, name, files.source, expected or {})
    family = family_of(raw, files.source)
    with _quiet(transformers):
        config = _configure(transformers, family, raw, files.source)
        _check_values(config, name, files.source, expected or {})
        spec = read_preprocessing(files.preprocessing, released)
        model = _load(torch, transformers, family, config, files, options)
    if family.position_offset is not None and spec.size is not None:
        place_positions(torch, model, spec.size, family.position_offset, files.source)
    model = _to_device(torch, model, options, files.source)
    output = family.output

    def network(batch: Any) -> Any:
        vectors = getattr(model(pixel_values=batch), output)
        if vectors is None:
            raise EncoderError(f"{files.source} has no pooling head, so it gives no vector per photograph")
        return vectors

    return TorchEncoder(
        network,
        spec,
        name=name,
        weights_sha256=files.sha256(),
        pooling=describe(family, config),
        libraries={"transformers": transformers.__version__}
        | ({"attention": family.attention} if family.attention else {}),
        device=options.device,
        precision=options.precision,
        threads=options.threads,
    )


def _check_type(raw: Mapping[str, Any], name: str, source: str, expected: Mapping[str, Any]) -> None:
    kind = expected.get("model_type", raw.get("model_type"))
    if raw.get("model_type") not in {kind, f"{kind}_vision_model"}:
        raise EncoderError(
            f"{source} has the architecture {raw.get('model_type')!r}, {name!r} is {kind!r}: name other weights, "
            "or open these as hf:FOLDER"
        )


def _check_values(config: Any, name: str, source: str, expected: Mapping[str, Any]) -> None:
    for key, value in expected.items():
        found = getattr(config, key, None)
        if key != "model_type" and found != value:
            raise EncoderError(
                f"{source} has {key} {found}, {name!r} has {value}: name other weights, or open these as hf:FOLDER"
            )


def _configure(transformers: Any, family: Family, raw: dict[str, Any], source: str) -> Any:
    strict = import_extra("huggingface_hub.errors", source).StrictDataclassError
    try:
        whole = getattr(transformers, family.config).from_dict(dict(raw))
        if family.part is None:
            return whole
        part = getattr(whole, family.part)
        if "projection_dim" in raw:  # the whole's counts; some checkpoints leave another number in the part
            part.projection_dim = whole.projection_dim
        return part
    except (strict, TypeError, ValueError, AttributeError) as error:
        raise EncoderError(f"config.json of {source} cannot be used: {brief(error)}") from error


def _load(torch: Any, transformers: Any, family: Family, config: Any, files: HubFolder, options: OpenOptions) -> Any:
    _, dtype = choose_device(torch, options.device, options.precision)
    try:
        model, report = getattr(transformers, family.model).from_pretrained(
            files.folder,
            config=config,
            dtype=dtype,
            attn_implementation=family.attention,
            use_safetensors=files.safetensors,
            weights_only=True,
            local_files_only=True,
            ignore_mismatched_sizes=True,  # they are in the report, and refused below
            output_loading_info=True,
        )
    except _damage(torch) as error:
        names = ", ".join(file.name for file in files.weights[:_SHOWN])
        raise EncoderError(
            f"the weights in {files.source} ({names}) are damaged or incomplete, download them again: {brief(error)}"
        ) from error
    _check_tensors(report, family, files.source)
    # The library leaves tensors mapped from the file. Products depend in the last bit on how memory is aligned, and a
    # file that is replaced meanwhile would take the process with it.
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = tensor.data.clone()
    return model


def _to_device(torch: Any, model: Any, options: OpenOptions, source: str) -> Any:
    device, _ = choose_device(torch, options.device, options.precision)
    try:
        return model.to(device).eval().requires_grad_(False)
    except torch.OutOfMemoryError as error:
        raise EncoderError(f"{source} does not fit into the memory of {device}: use --device cpu") from error


def _damage(torch: Any) -> tuple[type[Exception], ...]:
    import pickle
    import zipfile

    from safetensors import SafetensorError

    return (
        SafetensorError,
        OSError,
        RuntimeError,
        ValueError,
        EOFError,
        KeyError,
        pickle.UnpicklingError,
        zipfile.BadZipFile,
    )


def _check_tensors(report: Mapping[str, Any], family: Family, source: str) -> None:
    mismatched = [f"{key} {list(has)} for {list(wants)}" for key, has, wants in sorted(report["mismatched_keys"])]
    unexpected = [key for key in report["unexpected_keys"] if not family.may_ignore(key)]
    for what, names in (
        ("lacks", sorted(report["missing_keys"])),
        ("has the wrong shape for", mismatched),
        ("has tensors that its architecture does not use:", sorted(unexpected)),
    ):
        if names:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            raise EncoderError(
                f"the checkpoint {source} does not fit its config.json; it {what} {', '.join(names[:_SHOWN])}{more}: "
                "get the whole checkpoint again, weights and config.json from one place"
            )


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Silence the library's reports and progress bars; what matters in them is raised."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
