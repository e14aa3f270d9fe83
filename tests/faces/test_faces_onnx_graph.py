"""Reading the outside of a network, and taking the sizes out of it."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.tiny_onnx import FLOAT, block, model, node, number, value_info
from faceblind._onnx_graph import Port, read_graph, without_sizes


def small(*, batch=10, extra=(), inputs=()):
    return model(
        [node("Relu", ["image"], "positive"), node("GlobalAveragePool", ["positive"], "mean")],
        inputs=[("image", FLOAT, (batch, 3, 8, "wide")), *inputs],
        outputs=[("mean", FLOAT, (batch, 3, 1, 1))],
        weights={"unused": np.arange(6, dtype=np.float32)},
    ) + b"".join(extra)


def test_inputs_outputs_and_operators_are_read():
    graph = read_graph(small(inputs=[("unused", FLOAT, (6,))]))
    assert graph.inputs == (Port(name="image", shape=(10, 3, 8, None)),)  # not the weight listed with them
    assert graph.outputs == (Port(name="mean", shape=(10, 3, 1, 1)),)
    assert graph.operators == ("Relu", "GlobalAveragePool")


def test_without_sizes_any_size_runs_and_the_numbers_are_the_same():
    onnxruntime = pytest.importorskip("onnxruntime")
    data = without_sizes(small(inputs=[("unused", FLOAT, (6,))]))
    assert read_graph(data).inputs == (Port(name="image", shape=(None, 3, None, None)),)
    assert read_graph(data).outputs == (Port(name="mean", shape=(None,) * 4),)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    image = np.random.default_rng(0).normal(size=(2, 3, 5, 7)).astype(np.float32)
    (out,) = session.run(None, {"image": image})
    np.testing.assert_allclose(out[:, :, 0, 0], np.maximum(image, 0).mean(axis=(2, 3)), rtol=1e-5)
    assert without_sizes(data) == data


def test_notes_on_inner_sizes_go_and_everything_unknown_stays():
    noted = model(
        [node("Relu", ["image"], "out")],
        inputs=[("image", FLOAT, (1, 3, 4, 4))],
        outputs=[("out", FLOAT, (1, 3, 4, 4))],
    )
    inner = block(13, value_info("hidden", FLOAT, (4, 4)))
    tail = block(14, b"metadata") + number(5, 300)
    assert without_sizes(noted + tail).endswith(tail)
    assert b"hidden" not in without_sizes(_with_note(noted, inner))


def _with_note(data, note):
    at = data.index(block(2, "tiny"))  # inside the graph: its name
    start = data.rindex(b"\x3a", 0, at)  # field 7, the graph
    length, size = 0, 0
    while True:
        byte = data[start + 1 + size]
        length |= (byte & 0x7F) << (7 * size)
        size += 1
        if byte < 0x80:
            break
    body = data[start + 1 + size : start + 1 + size + length]
    return data[:start] + block(7, body + note) + data[start + 1 + size + length :]


@given(st.integers(0, 400))
def test_a_file_that_ends_early_is_refused_or_has_no_graph(cut):
    data = small()
    if cut >= len(data):
        return
    with pytest.raises(ValueError, match=r"."):
        read_graph(data[:cut])


@given(st.binary(max_size=60))
def test_any_bytes_give_a_graph_or_a_value_error(data):
    for reader in (read_graph, without_sizes):
        with suppress(ValueError):
            reader(data)
