"""The JSON and the NumPy text are enough: each is carried out without faceblind and equals `Projector.apply`."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys

import numpy as np
import pytest
from export_cases import FORMS, OUTPUTS, Case, assert_same, by_definition, cases, projector_of
from hypothesis import given, settings

from faceblind._errors import ProjectorError
from faceblind.deploy.export import matrix_schema, numpy_lines, save_json, to_json
from strategies import fingerprint


def by_the_words(data: dict, x: list[float]) -> list[float]:
    """Carry out `formula` in Python without libraries."""
    length = math.hypot(*x)
    if length == 0:
        return [0.0] * data["output_dim"]
    if "affine" in data["form"]:
        x, length = [value / length for value in x], 1.0
    arrays = data["arrays"]
    if data["compact"]:
        y = [sum(x[i] * row[j] for i, row in enumerate(arrays["matrix"])) for j in range(len(arrays["matrix"][0]))]
        if "offset" in arrays:
            y = [a + b for a, b in zip([*y, 0.0], arrays["offset"], strict=True)]
    else:
        basis, mean = arrays["basis"], arrays.get("mean", [0.0] * data["dim"])
        lift = arrays.get("lift", basis)
        c = [sum((x[i] - mean[i]) * basis[i][k] for i in range(len(x))) for k in range(data["rank"])]
        y = [x[i] - sum(lift[i][k] * c[k] for k in range(data["rank"])) for i in range(len(x))]
    left = math.hypot(*y)
    if left <= data["too_short"] or left < data["gone_ratio"] * length:
        return [0.0] * data["output_dim"]
    return [value / left for value in y] if data["renormalise"] else y


@settings(max_examples=100)
@given(cases())
def test_the_json_alone_gives_what_apply_gives(case):
    data = json.loads(json.dumps(to_json(case.projector, **case.output), allow_nan=False))
    assert_same(case, np.array([by_the_words(data, row) for row in case.rows.astype(float).tolist()]))
    for check in data["checks"]:
        found = by_the_words(data, check["input"])
        assert np.abs(np.subtract(found, check["output"])).max() <= data["tolerance"] * max(
            math.hypot(*check["input"]), 1
        )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("output", OUTPUTS)
def test_the_file_follows_its_schema_and_reads_back_bit_by_bit(tmp_path, form, output):
    jsonschema = pytest.importorskip("jsonschema")
    projector = projector_of(12, 5, form, encoder=fingerprint())
    check = save_json(projector, tmp_path / "p.json", **output)
    assert check.min_cosine > 0.999999
    data = json.loads((tmp_path / "p.json").read_text())
    jsonschema.validate(data, matrix_schema())
    assert data["projector"] == projector.digest
    assert data["encoder"] == fingerprint().to_dict()
    if output["compact"]:
        np.testing.assert_array_equal(data["arrays"]["matrix"], projector.pair.compact_map)
    else:
        np.testing.assert_array_equal(data["arrays"]["basis"], projector.basis)
        assert ("lift" in data["arrays"]) == ("oblique" in form)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data | {"arrays": {"matrix": [["1"]]}}, matrix_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({key: data[key] for key in data if key != "too_short"}, matrix_schema())


def test_the_checks_hold_a_zero_row_and_an_erased_one():
    outputs = [check["output"] for check in to_json(projector_of(12, 5))["checks"]]
    assert [any(output) for output in outputs] == [True, True, False, False]


def test_the_checks_notice_a_transposed_matrix():
    data = to_json(projector_of(12, 5, "oblique"))
    data["arrays"]["basis"], data["arrays"]["lift"] = data["arrays"]["lift"], data["arrays"]["basis"]
    check = data["checks"][0]
    assert np.abs(np.subtract(by_the_words(data, check["input"]), check["output"])).max() > 100 * data["tolerance"]


JAVASCRIPT = """
const data = JSON.parse(require("fs").readFileSync(process.argv[2]));
const a = data.arrays, sum = (n, f) => { let s = 0; for (let i = 0; i < n; i++) s += f(i); return s; };
const length = v => Math.sqrt(sum(v.length, i => v[i] * v[i]));
for (const { input, output } of data.checks) {
  let x = input, size = length(x), y = output.map(() => 0);
  if (size > 0) {
    if (data.form.includes("affine")) { x = x.map(v => v / size); size = 1; }
    if (data.compact) {
      y = a.matrix[0].map((_, j) => sum(x.length, i => x[i] * a.matrix[i][j]));
      if (a.offset) y = [...y, 0].map((v, j) => v + a.offset[j]);
    } else {
      const lift = a.lift || a.basis, m = a.mean || x.map(() => 0);
      const c = a.basis[0].map((_, k) => sum(x.length, i => (x[i] - m[i]) * a.basis[i][k]));
      y = x.map((v, i) => v - sum(c.length, k => lift[i][k] * c[k]));
    }
    const left = length(y);
    if (left <= data.too_short || left < data.gone_ratio * size) y = y.map(() => 0);
    else if (data.renormalise) y = y.map(v => v / left);
  }
  const off = Math.max(...y.map((v, i) => Math.abs(v - output[i])));
  if (!(off <= data.tolerance * Math.max(1, length(input)))) { console.log("off by " + off); process.exit(1); }
}
console.log(data.checks.length + " agree");
"""


@pytest.mark.parametrize("form", ["orthogonal", "oblique affine"])
@pytest.mark.parametrize("compact", [False, True])
def test_javascript_agrees(tmp_path, form, compact):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    save_json(projector_of(12, 5, form), tmp_path / "p.json", compact=compact)
    (tmp_path / "check.js").write_text(JAVASCRIPT)
    command = [node, str(tmp_path / "check.js"), str(tmp_path / "p.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "4 agree\n"), done.stdout + done.stderr


@settings(max_examples=40)
@given(cases())
def test_the_numpy_text_gives_what_apply_gives(tmp_path_factory, case):
    path = tmp_path_factory.mktemp("numpy") / "p.safetensors"
    case.projector.save(path)
    space: dict = {}
    exec(numpy_lines(path, **case.output), space)
    assert_same(case, space["clean"](case.rows))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_broken_row_is_seen(tmp_path, form, value):
    projector_of(8, 3, form).save(tmp_path / "p.safetensors")
    rows = np.random.default_rng(0).standard_normal((3, 8))
    rows[1, 2] = value
    space: dict = {}
    exec(numpy_lines(tmp_path / "p.safetensors"), space)
    found = space["clean"](rows)
    assert np.isnan(found[1]).all()
    assert np.isfinite(found[[0, 2]]).all()


def test_the_numpy_text_runs_without_faceblind(tmp_path):
    projector = projector_of(12, 5, "oblique affine", encoder=fingerprint())
    path = tmp_path / "it's p.safetensors"
    projector.save(path)
    text = numpy_lines(path, compact=True)
    assert projector.digest in text
    assert "faceblind" not in text
    rows = np.random.default_rng(0).standard_normal((5, 12)).astype(np.float32)
    np.save(tmp_path / "x.npy", rows)
    script = f"import sys; sys.modules['faceblind'] = None\n{text}\nnp.save('y.npy', clean(np.load('x.npy')))\n"
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    assert_same(Case(projector, rows, compact=True, renormalise=True), np.load(tmp_path / "y.npy"))


def test_the_numpy_text_notices_another_projector_file(tmp_path):
    path = tmp_path / "p.safetensors"
    with pytest.raises(ProjectorError, match="no projector file"):
        numpy_lines(path)


def test_the_definition_itself():
    projector = projector_of(9, 4, "oblique affine")
    rows = np.random.default_rng(0).standard_normal((4, 9))
    data = to_json(projector, renormalise=False)
    np.testing.assert_allclose(
        [by_the_words(data, row) for row in rows.tolist()], by_definition(projector, rows), atol=1e-12
    )
