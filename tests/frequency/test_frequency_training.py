"""Training: it learns, it goes on to the bit where it was stopped, and it refuses what it must."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from faceblind import DataError, FormatError, OutputError, UsageError  # noqa: E402
from faceblind.frequency.embed import embed_faces, make_ready  # noqa: E402
from faceblind.frequency.faces import ArrayFaces  # noqa: E402
from faceblind.frequency.heads import MarginHead  # noqa: E402
from faceblind.frequency.model import load_model  # noqa: E402
from faceblind.frequency.recipe import OFFICIAL, PAPER, RECIPES, SMALL, Recipe  # noqa: E402
from faceblind.frequency.training import train  # noqa: E402

TINY = replace(
    SMALL, height=16, width_px=16, width=4, embedding=16, batch=8, epochs=2, lr_steps=(5,), warmup=0.0, dropout=0.1
)
RGB = replace(TINY, release="rgb", config={})


pytestmark = pytest.mark.usefixtures("one_torch_thread")


def people(count=6, each=6, seed=0, noise=20.0):
    """Everybody has a pattern of their own, seen with noise."""
    rng = np.random.default_rng(seed)
    patterns = rng.uniform(40, 215, (count, 4, 4, 3)).repeat(4, axis=1).repeat(4, axis=2)
    images = patterns[:, None] + rng.normal(0, noise, (count, each, 16, 16, 3))
    identity = np.repeat([f"p{i}" for i in range(count)], each)
    return ArrayFaces(np.clip(images, 0, 255).astype(np.uint8).reshape(-1, 16, 16, 3), identity)


def rows(source):
    return np.arange(len(source))


def weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def same(a, b):
    return set(a) == set(b) and all(torch.equal(a[key], b[key]) for key in a)


@pytest.mark.parametrize(
    "recipe",
    [
        RGB,
        replace(TINY, config={"eps_mean": 5.0}),
        replace(TINY, release="instahide", config={}),
        replace(TINY, release="cloak", config={}),
    ],
    ids=["rgb", "dctdp", "instahide", "cloak"],
)
def test_a_stopped_run_goes_on_to_the_bit(tmp_path, recipe):
    source = people()
    torch.manual_seed(1)  # the state of the global generator, which must not matter
    train(recipe, source, rows(source), tmp_path / "whole")
    torch.manual_seed(2)

    class StopError(Exception):
        pass

    steps = 0

    def stop(what, _done, _of):
        nonlocal steps
        steps += what.startswith("epoch")
        if steps == 8:  # in the middle of the second epoch
            raise StopError

    with pytest.raises(StopError):
        train(recipe, source, rows(source), tmp_path / "stopped", save_every=2, progress=stop)
    assert not (tmp_path / "stopped" / "model.safetensors").exists()
    (tmp_path / "stopped" / ".checkpoint.safetensors.7.0123abcd.part").write_bytes(b"half")  # as kill -9 leaves it
    resumed = []
    torch.manual_seed(3)
    train(
        recipe, source, rows(source), tmp_path / "stopped", progress=lambda what, done, _: resumed.append((what, done))
    )
    assert resumed[0] == ("epoch 2 of 2", 3)
    assert not list((tmp_path / "stopped").glob(".*.part"))
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "stopped"))
    logs = [json.loads((tmp_path / name / "training.json").read_text())["log"] for name in ("whole", "stopped")]
    for one, other in zip(*logs, strict=True):
        assert one["loss"] == other["loss"]
        assert one["accuracy"] == other["accuracy"]


def test_it_learns_patterns_and_not_shuffled_labels(tmp_path):
    recipe = replace(RGB, width=8, epochs=30, lr_steps=(24,), m=0.0)
    source, other = people(noise=30), people(noise=30)
    log = train(recipe, source, rows(source), tmp_path / "a").log
    assert log[-1]["accuracy"] > 0.8
    assert log[-1]["loss"] < log[0]["loss"]
    fresh = people(each=4, seed=0, noise=45)
    vectors = embed_faces(load_model(tmp_path / "a"), fresh)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    mated = fresh.identity[:, None] == fresh.identity[None]
    cosines = vectors @ vectors.T
    off = ~np.eye(len(fresh), dtype=bool)
    assert cosines[mated & off].mean() > cosines[~mated].mean() + 0.3
    shuffled = ArrayFaces(other.pixels(rows(other)), np.random.default_rng(3).permutation(other.identity))
    assert train(recipe, shuffled, rows(shuffled), tmp_path / "b").log[-1]["accuracy"] < 0.75


def test_budgets_are_learnt_and_saved(tmp_path):
    source = people()
    recipe = replace(TINY, config={"eps_mean": 3.0})
    trained = train(recipe, source, rows(source), tmp_path / "m")
    back = load_model(tmp_path / "m")
    theta = back.release.budget.theta
    assert theta.abs().max() > 0.01
    assert torch.equal(theta, trained.model.release.budget.theta)
    account = json.loads((tmp_path / "m" / "training.json").read_text())["account"]
    assert account["eps_mean"] == pytest.approx(3.0, rel=1e-4)
    assert account["effective_number"] < account["elements"]
    assert np.array_equal(embed_faces(back, source, seed=4), embed_faces(back, source, seed=4))
    assert not np.array_equal(embed_faces(back, source, seed=4), embed_faces(back, source, seed=5))
    assert np.array_equal(
        embed_faces(back, source, noise=False, seed=4), embed_faces(back, source, noise=False, seed=5)
    )
    assert not np.array_equal(embed_faces(back, source, noise=False), embed_faces(back, source, noise=False, flip=True))


def test_it_starts_from_the_backbone_of_another_run(tmp_path):
    source = people()
    clean = replace(TINY, config={"noise": False})
    train(clean, source, rows(source), tmp_path / "clean")
    noisy = replace(TINY, config={"budgets": "uniform", "eps_mean": 50.0}, epochs=0)
    train(noisy, source, rows(source), tmp_path / "noisy", start_from=tmp_path / "clean")
    a, b = weights(tmp_path / "clean"), weights(tmp_path / "noisy")
    assert all(torch.equal(a[key], b[key]) for key in a if key.startswith("backbone."))
    assert load_model(tmp_path / "noisy").release.calibrated
    started = json.loads((tmp_path / "noisy" / "training.json").read_text())["started_from"]
    assert started == hashlib.sha256((tmp_path / "clean" / "model.safetensors").read_bytes()).hexdigest()
    with pytest.raises(FormatError, match="does not fit the recipe"):
        train(RGB, source, rows(source), tmp_path / "c", start_from=tmp_path / "clean")


def test_instahide_gets_a_pool_when_it_is_used(tmp_path):
    source = people()
    train(replace(TINY, release="instahide", config={}), source, rows(source), tmp_path / "m")
    model = load_model(tmp_path / "m")
    with pytest.raises(UsageError, match="set_pool"):
        embed_faces(model, source)
    make_ready(model, source, rows(source))
    assert embed_faces(model, source).shape == (36, 16)


def test_another_recipe_or_other_faces_are_not_mixed_into_a_run(tmp_path):
    source = people()
    train(RGB, source, rows(source), tmp_path / "m")
    with pytest.raises(OutputError, match=r"another recipe \(lr 0\.05, not 0\.01\); name another"):
        train(replace(RGB, lr=0.01), source, rows(source), tmp_path / "m")
    with pytest.raises(OutputError, match="other faces"):
        train(RGB, source, rows(source)[:-1], tmp_path / "m")


def test_a_run_goes_on_only_from_the_weights_it_began_with(tmp_path):
    source = people()
    train(RGB, source, rows(source), tmp_path / "first")
    train(replace(RGB, epochs=1), source, rows(source), tmp_path / "m", start_from=tmp_path / "first")
    train(replace(RGB, epochs=1), source, rows(source), tmp_path / "m", start_from=tmp_path / "first")
    with pytest.raises(OutputError, match="began from other weights"):
        train(replace(RGB, epochs=1), source, rows(source), tmp_path / "m")


def test_one_run_at_a_time(tmp_path):
    source = people()
    from faceblind._files import locked

    with locked(tmp_path / "m", tmp_path / "m"), pytest.raises(OutputError, match="another run is writing it"):
        train(RGB, source, rows(source), tmp_path / "m")


def test_weights_of_one_run_and_the_recipe_of_another_are_not_a_model(tmp_path):
    source = people()
    train(RGB, source, rows(source), tmp_path / "m")
    (tmp_path / "m" / "checkpoint.safetensors").unlink()

    class StopError(Exception):
        pass

    def stop(_what, _done, _of):
        raise StopError

    with pytest.raises(StopError):
        train(replace(RGB, lr=0.01), source, rows(source), tmp_path / "m", progress=stop)
    with pytest.raises(FormatError, match=r"was not trained with recipe\.json beside it"):
        load_model(tmp_path / "m")


def test_damaged_and_missing_files_are_named(tmp_path):
    source = people()
    train(RGB, source, rows(source), tmp_path / "m")
    checkpoint, model = tmp_path / "m" / "checkpoint.safetensors", tmp_path / "m" / "model.safetensors"
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    with pytest.raises(FormatError, match=r"checkpoint.*delete it"):
        train(RGB, source, rows(source), tmp_path / "m")
    model.write_bytes(model.read_bytes()[:1000])
    with pytest.raises(FormatError, match="is damaged"):
        load_model(tmp_path / "m")
    model.unlink()
    with pytest.raises(FormatError, match="is missing"):
        load_model(tmp_path / "m")
    with pytest.raises(FormatError, match=r"recipe\.json is missing"):
        load_model(tmp_path)


def test_divergence_stops_at_once_and_says_what_to_change(tmp_path):
    source = people()
    with pytest.raises(UsageError, match=r"diverged.*lower lr"):
        train(replace(RGB, lr=1e30, epochs=5), source, rows(source), tmp_path / "m")


@pytest.mark.parametrize("save_every", [1, 1000])
def test_weights_spoiled_after_the_loss_was_taken_are_never_kept(tmp_path, monkeypatch, save_every):
    source = people()
    step = MarginHead.loss
    calls = 0

    def spoil(head, *given):
        nonlocal calls
        calls += 1
        loss = step(head, *given)
        if calls == 10:  # the last step of the second epoch: its loss is fine, its gradient is not
            head.weight.register_hook(lambda g: torch.full_like(g, float("inf")))
        return loss

    monkeypatch.setattr(MarginHead, "loss", spoil)
    with pytest.raises(
        UsageError, match=r"head\.weight is not finite in epoch 2, step 5; .*last checkpoint is kept in"
    ):
        train(RGB, source, rows(source), tmp_path / "m", save_every=save_every)
    monkeypatch.undo()
    assert not (tmp_path / "m" / "model.safetensors").exists()
    assert train(RGB, source, rows(source), tmp_path / "m").log[-1]["loss"] > 0  # what is kept is sound


def test_rows_are_numbers_or_a_mask_of_the_source(tmp_path):
    source = people()
    mask = np.zeros(36, dtype=bool)
    mask[3:20] = True
    train(replace(RGB, epochs=1), source, mask, tmp_path / "mask")
    train(replace(RGB, epochs=1), source, np.arange(3, 20), tmp_path / "numbers")
    assert same(weights(tmp_path / "mask"), weights(tmp_path / "numbers"))
    model = load_model(tmp_path / "mask")
    assert np.array_equal(embed_faces(model, source, mask), embed_faces(model, source)[mask])
    assert embed_faces(model, source, []).shape == (0, 16)
    for bad, message in [
        ([0, 99], "row 99 is not there: the source has 36 faces"),
        ([0, -1], "row -1 is not there"),
        ([0.5, 2], "whole numbers or a mask, got float64"),
        (mask[:5], "one value for each of the 36 faces, got 5"),
    ]:
        with pytest.raises(DataError, match=message):
            train(RGB, source, bad, tmp_path / "x")
        with pytest.raises(DataError, match=message):
            embed_faces(model, source, bad)
    with pytest.raises(UsageError, match="batch must be at least 1"):
        embed_faces(model, source, batch=0)
    assert not (tmp_path / "x").exists()


def test_bad_input(tmp_path):
    source = people()
    with pytest.raises(UsageError, match="save_every must be at least one"):
        train(RGB, source, rows(source), tmp_path / "a", save_every=0)
    with pytest.raises(UsageError, match="device must be cpu, cuda"):
        load_model(tmp_path, device="gpu")
    with pytest.raises(UsageError, match="recipe is for faces"):
        train(SMALL, source, rows(source), tmp_path / "a")
    with pytest.raises(DataError, match="at least two people"):
        train(RGB, source, rows(source)[:6], tmp_path / "b")
    with pytest.raises(UsageError, match="float16 is for GPUs"):
        train(replace(RGB, precision="float16"), source, rows(source), tmp_path / "c")


def test_bfloat16_trains(tmp_path):
    source = people()
    assert train(replace(RGB, precision="bfloat16", epochs=1), source, rows(source), tmp_path / "m").log[0]["loss"] > 0


def test_recipes_are_json_both_ways_and_checked():
    for recipe in RECIPES.values():
        assert Recipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe
    assert PAPER.digest != OFFICIAL.digest
    assert [PAPER.factor(e) for e in (0, 9.9, 10, 18, 22)] == pytest.approx([1, 1, 0.1, 0.01, 0.001])
    assert replace(PAPER, warmup=2.0).factor(1) == 0.5
    for change, message in [
        ({"batch": 1}, "at least 2"),
        ({"precision": "half"}, "precision"),
        ({"lr": 0.0}, "lr must be positive"),
        ({"lr_steps": (5, 3)}, "must rise"),
        ({"epochs": -1}, "epochs"),
        ({"width": 0}, "width"),
        ({"lr": "0.1"}, "lr must be a number, got '0.1'"),
        ({"lr": float("nan")}, "lr must be at least 0 and finite, got nan"),
        ({"momentum": 1.0}, "momentum must be at least 0 and less than 1"),
        ({"epochs": 2.5}, r"epochs must be a whole number, got 2\.5"),
        ({"seed": True}, "seed must be a whole number, got True"),
        ({"flip": "no"}, "flip must be true or false, got 'no'"),
        ({"lr_steps": 5}, "lr_steps must be a list of epochs, got 5"),
        ({"config": None}, "config must be options as JSON values"),
        ({"config": {"eps": float("inf")}}, "config must be options as JSON values"),
        ({"release": 7}, "release must be a name, got 7"),
    ]:
        with pytest.raises(UsageError, match=message):
            replace(PAPER, **change)
    with pytest.raises(UsageError, match="unknown speed"):
        Recipe.from_dict({"speed": 3})
    with pytest.raises(UsageError, match="must be an object with names and values, got list"):
        Recipe.from_dict([1])


def test_a_recipe_is_the_same_however_its_values_are_written():
    written = Recipe.from_dict({"s": 64, "lr_steps": [10, 18, 22], "batch": np.int64(64), "config": {"a": (1, 2)}})
    assert written == replace(Recipe(), config={"a": [1, 2]})
    assert written.digest == replace(Recipe(), config={"a": [1, 2]}).digest
    options = {"eps_mean": 0.5}
    recipe = Recipe(config=options)
    options["eps_mean"] = 100.0
    assert recipe.config == {"eps_mean": 0.5}
