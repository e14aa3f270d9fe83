"""From a data set as downloaded to an audit, through the files that `faceblind dataset` writes, and the verb itself."""

from __future__ import annotations

import re
import shlex

import numpy as np
import pytest
from datasets_trees import celeba, faces_emore, jpeg, put

import faceblind as fb
from faceblind.cli import main
from faceblind.data.datasets import FACTS, Request, prepare
from faceblind.data.meta import Fingerprint
from faceblind.data.split import IdentitySplit


def pictures(root, *, people=24, each=6):
    """CelebA's layout with pictures that can be decoded: a noisy pattern of each person's own."""
    image = pytest.importorskip("PIL.Image")
    celeba(root, people=people, each=each)
    rng = np.random.default_rng(0)
    base = rng.integers(40, 215, (people, 8, 8, 3))
    for line in (root / "Anno/identity_CelebA.txt").read_text().splitlines():
        file, person = line.split()
        noisy = np.clip(base[int(person) - 1] + rng.normal(0, 30, (8, 8, 3)), 0, 255).astype(np.uint8)
        image.fromarray(noisy).resize((32, 32)).save(root / "Img/img_align_celeba" / file)
    return root


def encoder():
    pytest.importorskip("PIL")
    from faceblind.encoders import Encoder

    class Small(Encoder):
        """8 x 8 pixels as they are."""

        fingerprint = Fingerprint(
            encoder="small",
            weights_sha256="0" * 64,
            dim=192,
            pooling="none",
            preprocessing="{}",
            precision="float32",
            libraries={},
        )

        def run(self, prepared):
            return np.stack([picture[2::4, 2::4].reshape(-1) for picture in prepared]).astype(np.float32) / 255 - 0.5

    return Small()


def test_labels_and_split_go_through_embed_and_audit(tmp_path):
    pytest.importorskip("PIL")
    from faceblind.encoders import embed_folder

    root, out = pictures(tmp_path / "data"), tmp_path / "out"
    made = prepare("celeba20", root, out, Request(images=5, people="8,6,5,5"))
    done = embed_folder(made.root, encoder(), out / "t.npz", labels_csv=out / "labels.csv")
    assert (done.embedded, done.skipped) == (120, ())
    table = fb.read_table(out / "t.npz")
    split = IdentitySplit.from_csv(out / "split.csv", table)
    sizes = {part: (c["identities"], c["samples"]) for part, c in split.counts(table.identity).items()}
    assert sizes == {"fit": (8, 40), "attack": (6, 30), "validation": (5, 25), "test": (5, 25)}
    plan = fb.AuditPlan(fars=(1e-1,), ks=(4,), attackers=("cosine",), attacker_seeds=1, draws=100, rank=4)
    result = fb.audit(table, plan=plan, split=split)
    assert max(s.tar for s in result.summary if s.release == "raw") > 0.8


def test_what_embed_skips_is_drawn_anew(tmp_path):
    """A file that looks whole and does not decode: the split would name a sample that the table lacks."""
    pytest.importorskip("PIL")
    from faceblind.data.datasets import read_leave_out
    from faceblind.encoders import embed_folder

    root, out = pictures(tmp_path / "data", people=8, each=5), tmp_path / "out"
    bad = prepare("celeba20", root, out, Request(images=4)).records[0]
    put(root / bad.file, jpeg("no picture"))
    made = prepare("celeba20", root, out, Request(images=4))
    done = embed_folder(made.root, encoder(), out / "t.npz", labels_csv=out / "labels.csv")
    assert [skip.sample for skip in done.skipped] == [bad.file]
    with pytest.raises(fb.FormatError, match="is not in the table"):
        IdentitySplit.from_csv(out / "split.csv", fb.read_table(out / "t.npz"))
    request = Request(images=4, leave_out=read_leave_out(done.skip_list_path))
    made = prepare("celeba20", root, out, request)
    done = embed_folder(made.root, encoder(), out / "t.npz", labels_csv=out / "labels.csv")
    assert (done.embedded, done.skipped) == (32, ())
    IdentitySplit.from_csv(out / "split.csv", fb.read_table(out / "t.npz"))


def test_the_commands_it_prints_run(tmp_path, capsys, monkeypatch):
    pytest.importorskip("PIL")
    root, out = pictures(tmp_path / "my data", people=16), tmp_path / "out"
    assert main(["dataset", "celeba20", str(root), "-o", str(out), "--images", "5"]) == 0
    text = capsys.readouterr().out
    assert "fit: " in text
    embed, audit = (shlex.split(line)[1:] for line in re.findall(r"^  (faceblind .*)$", text, re.MULTILINE))
    from faceblind import encoders

    monkeypatch.setattr(encoders, "open_encoder", lambda *_args, **_options: encoder())
    assert main([*embed[:-1], str(tmp_path / "t.npz")]) == 0
    assert (
        main([audit[0], str(tmp_path / "t.npz"), *audit[2:], "--attackers", "cosine", "--draws", "100", "--rank", "2"])
        == 0
    )
    assert embed[-1] == audit[1]
    assert (out / "audit/report.html").is_file()


def test_records_through_the_command_line(tmp_path, capsys):
    root = faces_emore(tmp_path / "data", people=8, each=6)
    assert main(["dataset", "ms1m", str(root), "-o", str(tmp_path / "out"), "--images", "4"]) == 0
    text = capsys.readouterr().out
    assert f"faceblind embed {tmp_path / 'out/images'} --labels {tmp_path / 'out/labels.csv'}" in text
    assert len(list((tmp_path / "out/images").rglob("*.jpg"))) == 32


def test_strict_says_no_to_errors_only(tmp_path, capsys):
    root = celeba(tmp_path / "data", each=6)
    argv = ["dataset", "celeba20", str(root), "-o", str(tmp_path / "out"), "--images", "5", "--strict"]
    assert main(argv) == 0
    capsys.readouterr()
    (root / "Img/img_align_celeba/000001.jpg").unlink()
    assert main(argv) == 1
    streams = capsys.readouterr()
    assert "ERROR  listed_file_missing (1)" in streams.out
    assert "1 findings do not pass --strict: listed_file_missing" in streams.err
    assert (tmp_path / "out/manifest.json").is_file()


def test_the_list_names_every_data_set_with_its_terms(capsys):
    assert main(["dataset", "list"]) == 0
    text = capsys.readouterr().out
    for facts in FACTS.values():
        assert f"{facts.name}  ({facts.title})" in text
        assert facts.terms in text
        assert facts.page in text
    assert "about 3,310,000 images" in text


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["celeba20"], "name the directory and the folder to write: faceblind dataset celeba20 DIRECTORY -o FOLDER"),
        (["celeba20", "/nonexistent", "-o", "{out}"], "/nonexistent: no such folder"),
        (["celeba20", "/nonexistent", "-o", "{out}", "--images", "many"], "images is a number or 'all', got 'many'"),
        (["csv", "/nonexistent", "-o", "{out}", "--leave-out", "/none.csv"], "no such file: /none.csv"),
        (["celeb", "/nonexistent", "-o", "{out}"], "celeba20"),
    ],
)
def test_usage_errors(argv, said, tmp_path, capsys):
    assert main(["dataset", *(item.format(out=tmp_path / "out") for item in argv)]) == 2
    streams = capsys.readouterr()
    assert said in streams.err + streams.out


def test_names_on_the_command_line_are_those_of_the_loaders():
    from typing import get_args

    from faceblind.cli.dataset import Name

    assert set(get_args(Name)) == {"list", *FACTS}
