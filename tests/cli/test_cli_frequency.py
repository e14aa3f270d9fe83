"""``faceblind frequency`` as a user runs it: train, evaluate, attack, release, and what is said when it cannot be done."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("torch")

from safetensors.numpy import load_file

from faceblind.cli import main

pytestmark = pytest.mark.usefixtures("one_torch_thread")


def run(capsys, *argv):
    code = main(["frequency", *(str(a) for a in argv)])
    streams = capsys.readouterr()
    return code, streams.out, streams.err


@pytest.fixture(scope="module")
def faces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faces")
    rng = np.random.default_rng(0)
    for person in range(24):
        pattern = rng.uniform(40, 215, (4, 4, 3)).repeat(6, 0).repeat(6, 1)
        (folder / f"p{person:02d}").mkdir()
        for i in range(6):
            image = np.clip(pattern + rng.normal(0, 15, pattern.shape), 0, 255).astype(np.uint8)
            Image.fromarray(image).save(folder / f"p{person:02d}" / f"{i}.png")
    return folder


TINY = ("--recipe", "small", "--size", 24, "--width", 8, "--epochs", 1)


def test_the_whole_way(faces, tmp_path, capsys):
    model = tmp_path / "m"
    code, out, err = run(capsys, "train", faces, "-o", model, *TINY, "--eps", 3, "--seed", 5)
    assert (code, err) == (0, "")
    assert "Trained on 15 people, 90 faces" in out
    assert "hardly anything (chance is 6.7%)" in out  # one epoch
    assert "sum to eps = 326,592" in out
    assert "excludes nothing" in out
    recipe = json.loads((model / "recipe.json").read_text())
    assert (recipe["release"], recipe["config"], recipe["lr_steps"]) == ("dctdp", {"eps_mean": 3.0}, [1])
    code, out, _ = run(capsys, "evaluate", model, faces)
    assert code == 0
    assert "noise on: TAR at FAR 0.1" in out
    code, out, _ = run(capsys, "evaluate", model, faces, "--no-noise")
    assert "NOISE OFF" in out
    rows = json.loads((model / "evaluation.json").read_text())
    assert {row["noise"] for row in rows} == {True, False}
    assert run(capsys, "evaluate", model, faces, "--flip")[0] == 0
    flipped = json.loads((model / "evaluation.json").read_text())
    assert [row for row in flipped if not row["flip"]] == rows  # beside the others, not in their place
    assert len(flipped) > len(rows)
    code, out, err = run(capsys, "attack", model, faces, "--attacks", "idct-zero,lsq,unet,linkage", "--each", 1)
    assert (code, err) == (0, "")
    assert "the floor: PSNR" in out
    assert "U-Net: PSNR" in out
    assert "Linkage by released tensor: TAR" in out
    record = json.loads((model / "record.json").read_text())
    assert record["schema"] == "faceblind.frequency/1"
    (entry,) = record["models"]
    assert [attack["attack"] for attack in entry["attacks"]] == ["idct-zero", "lsq", "unet"]
    assert {row["space"] for row in entry["linkage"]} == {"released tensor", "the recogniser's embedding"}
    assert entry["title"] == "DCTDP, mean eps 3, ArcFace"
    assert (model / entry["gallery"]["original"][0]).exists()
    assert run(capsys, "attack", model, faces, "--attacks", "look,idct-wrong", "--each", 1)[0] == 0
    more = json.loads((model / "record.json").read_text())["models"][0]
    assert [attack["attack"] for attack in more["attacks"]] == ["idct-zero", "idct-wrong", "lsq", "unet"]
    assert more["linkage"] == entry["linkage"]
    assert run(capsys, "attack", model, faces, "--attacks", "idct-zero", "--each", 2)[0] == 0  # other photographs
    other = json.loads((model / "record.json").read_text())["models"][0]
    assert [attack["attack"] for attack in other["attacks"]] == ["idct-zero"]
    assert entry["account"]["eps_mean"] == pytest.approx(3.0, rel=1e-4)
    assert 0 < entry["account"]["outside"] < 0.5  # of the test people, whom the ranges do not come from
    assert "lie outside the calibrated ranges" in " ".join(entry["account"]["sentences"])
    page = (model / "report.html").read_text()
    assert "DCTDP, mean eps 3, ArcFace" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    code, out, _ = run(capsys, "report", model, "-o", tmp_path / "all.html")
    assert code == 0
    assert (tmp_path / "all.html").exists()
    code, _, err = run(capsys, "report", "-o", tmp_path / "none.html")
    assert code == 2
    assert "at least one model" in err


def test_figures_of_an_earlier_model_in_the_folder_are_not_kept(faces, tmp_path, capsys):
    model = tmp_path / "m"
    assert run(capsys, "train", faces, "-o", model, *TINY)[0] == 0
    assert run(capsys, "evaluate", model, faces)[0] == 0
    assert run(capsys, "attack", model, faces, "--attacks", "idct-zero", "--each", 1)[0] == 0

    def entry():
        return json.loads((model / "record.json").read_text())["models"][0]

    assert entry()["attacks"]
    assert entry()["evaluation"]
    for path in model.glob("*.safetensors"):
        path.unlink()
    assert run(capsys, "train", faces, "-o", model, *TINY, "--seed", 8)[0] == 0
    assert "attacks" not in entry()
    assert entry()["evaluation"] == []
    assert entry()["account"]["outside"] is None
    assert run(capsys, "evaluate", model, faces, "--no-noise")[0] == 0
    assert {row["noise"] for row in entry()["evaluation"]} == {False}


def test_releases_differ_unless_a_seed_is_named_and_go_on_where_they_were(faces, tmp_path, capsys):
    model = tmp_path / "m"
    assert run(capsys, "train", faces, "-o", model, *TINY)[0] == 0
    for name, seed in (("a", 3), ("b", 3), ("c", None), ("d", None)):
        given = () if seed is None else ("--seed", seed)
        code, out, _ = run(capsys, "release", model, faces, "-o", tmp_path / name, "--shard", 50, *given)
        assert code == 0
        assert "144 faces released" in out
    first = {name: load_file(tmp_path / name / "released-00000.safetensors")["released"] for name in "abcd"}
    assert first["a"].shape == (50, 189, 24, 24)
    assert np.array_equal(first["a"], first["b"])
    assert not np.array_equal(first["c"], first["d"])
    with (tmp_path / "a" / "manifest.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 144
    assert rows[50]["file"] == "released-00001.safetensors"
    (tmp_path / "c" / "released-00001.safetensors").unlink()
    assert run(capsys, "release", model, faces, "-o", tmp_path / "c", "--shard", 50)[0] == 0
    assert np.array_equal(load_file(tmp_path / "c" / "released-00000.safetensors")["released"], first["c"])
    code, _, err = run(capsys, "release", model, faces, "-o", tmp_path / "c", "--shard", 40)
    assert code == 2
    assert "of another run" in err


def test_instahide_and_other_baselines_go_the_same_way(faces, tmp_path, capsys):
    model = tmp_path / "m"
    assert run(capsys, "train", faces, "-o", model, *TINY, "--release", "instahide", "--head", "cosface")[0] == 0
    assert run(capsys, "evaluate", model, faces)[0] == 0
    code, out, _ = run(capsys, "attack", model, faces, "--attacks", "look", "--each", 1)
    assert code == 0
    assert "Looking at it" in out
    code, _, err = run(capsys, "release", model, faces, "-o", tmp_path / "r")
    assert code == 2
    assert "private pictures" in err


def test_verification_sets_are_read_as_downloaded(faces, tmp_path, capsys):
    model, pairs = tmp_path / "m", tmp_path / "pairs.csv"
    assert run(capsys, "train", faces, "-o", model, *TINY, "--release", "rgb")[0] == 0
    people = sorted(path.name for path in faces.iterdir())
    lines = ["first,second,same,fold"]
    for i, name in enumerate(people):
        other = people[(i + 1) % len(people)]
        lines += [f"{name}/0.png,{name}/1.png,1,{i % 4}", f"{name}/2.png,{other}/3.png,0,{i % 4}"]
    pairs.write_text("\n".join(lines) + "\n")
    for path in faces.rglob("*.png"):
        target = tmp_path / path.parent.name / path.name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(path.read_bytes())
    code, out, err = run(capsys, "evaluate", model, faces, "--pairs", f"ours={pairs}")
    assert (code, err) == (0, "")
    assert "ours, noise on: 10-fold accuracy" in out


def test_messages(faces, tmp_path, capsys):
    model = tmp_path / "m"
    for argv, message in [
        (("train", faces, "-o", model, "--recipe", "best"), "none of paper, official, small"),
        (("train", faces, "-o", model, *TINY, "--release", "magic"), "unknown release 'magic'"),
        (("train", faces, "-o", model, *TINY, "--release", "rgb", "--eps", 3), "has no budget"),
        (("train", faces, "-o", model, *TINY, "--device", "cuda"), "device 'cuda' is not there"),
        (("train", tmp_path / "none", "-o", model, *TINY), "none"),
        (("evaluate", tmp_path, faces), "recipe.json is missing"),
    ]:
        code, _, err = run(capsys, *argv)
        assert code == 2, argv
        assert message in err
        assert err.count("\n") == 1
    run(capsys, "train", faces, "-o", model, *TINY)
    code, _, err = run(capsys, "train", faces, "-o", model, *TINY, "--eps", 9)
    assert code == 2
    assert "other recipe" in err
    code, _, err = run(capsys, "evaluate", model, faces, "--pairs", "lfw.bin")
    assert code == 2
    assert "must be NAME=PATH" in err
    code, _, err = run(capsys, "attack", model, faces, "--attacks", "guess")
    assert code == 2
    assert "unknown attack guess" in err
