"""What is known about each data set: its owner, its terms, its published counts, and what is drawn from it by default.

Counts are compared with what is found, and differences are reported, never refused: a subset can be all one needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from faceblind._errors import DataError, UsageError
from faceblind.data.split import PARTS

PAPER_IMAGES = 20
PAPER_SIZES: Mapping[str, int] = dict(zip(PARTS, (320, 320, 80, 80), strict=True))
"""The paper's 320 / 80 / 80, and as many people again for attackers who learn from people the eraser never saw."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One data set, as its owner describes it.

    Attributes
    ----------
    counts : published counts, exact
    about : published counts, rounded; found counts within 1 % agree
    images : images a person (ImageNet: a class; DISC2021: references that are nobody's copy); None takes all
    sizes : identities of each part; None divides all of them by the default shares of an audit
    """

    name: str
    title: str
    owner: str
    page: str
    terms: str
    point_at: str
    counts: Mapping[str, int] = field(default_factory=dict)
    about: Mapping[str, int] = field(default_factory=dict)
    images: int | None = None
    sizes: Mapping[str, int] | None = None
    people: bool = True

    def missing(self, root: Path, what: str, looked_for: str) -> DataError:
        """Return the error for a directory that lacks something essential."""
        return DataError(
            f"{root}: {what}; looked for {looked_for}; {self.title} comes from {self.owner}, {self.page}"
            if self.page
            else f"{root}: {what}; looked for {looked_for}"
        )


_ALL = (
    Facts(
        name="celeba20",
        title="CelebA",
        owner="Multimedia Laboratory, The Chinese University of Hong Kong",
        page="https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
        terms="non-commercial research only, no redistribution",
        point_at="the folder with img_align_celeba/ and identity_CelebA.txt (its owner has it under Anno/; mirrors often lack it)",
        counts={"images": 202_599, "identities": 10_177},
        images=PAPER_IMAGES,
        sizes=PAPER_SIZES,
    ),
    Facts(
        name="vggface2-20",
        title="VGGFace2",
        owner="Visual Geometry Group, University of Oxford",
        page="https://www.robots.ox.ac.uk/~vgg/data/vgg_face2/",
        terms="as in the licence that came with your copy; as far as we know no longer offered for download",
        point_at="the folder with train/n000002/0001_01.jpg and test/n000001/...; identity_meta.csv beside them is read",
        counts={"identities": 9_131},
        about={"images": 3_310_000},
        images=PAPER_IMAGES,
        sizes=PAPER_SIZES,
    ),
    Facts(
        name="lfw20",
        title="Labeled Faces in the Wild",
        owner="University of Massachusetts Amherst",
        page="http://vis-www.cs.umass.edu/lfw/",
        terms="research; the photographs are news photographs of their owners",
        point_at="lfw/, lfw-deepfunneled/ or lfw_funneled/, with Name_Surname/Name_Surname_0001.jpg",
        counts={"images": 13_233, "identities": 5_749, "identities with 20 or more images": 62},
        images=PAPER_IMAGES,
        sizes=dict(zip(PARTS, (19, 18, 12, 13), strict=True)),
    ),
    Facts(
        name="ms1m",
        title="MS1M and others of its form",
        owner="Microsoft (withdrawn in 2019); cleaned lists were made by others",
        page="https://github.com/deepinsight/insightface/tree/master/recognition/_datasets_",
        terms="non-commercial research; its maker withdrew MS-Celeb-1M: find out whether you may hold it at all",
        point_at="a folder with train.rec, train.idx and property (MXNet RecordIO), or a folder per person",
        images=PAPER_IMAGES,
        sizes=PAPER_SIZES,
    ),
    Facts(
        name="imagenet",
        title="ImageNet (ILSVRC2012)",
        owner="ImageNet, Princeton and Stanford",
        page="https://www.image-net.org/",
        terms="non-commercial research and education, after registration",
        point_at="the folder with train/n01440764/*.JPEG and val/ (in class folders, or flat with its labels)",
        counts={"classes": 1_000, "train images": 1_281_167, "validation images": 50_000},
        images=50,
        people=False,
    ),
    Facts(
        name="disc2021",
        title="DISC2021, the Image Similarity Challenge",
        owner="Meta AI",
        page="https://ai.meta.com/datasets/disc21-dataset/",
        terms="research, under the agreement of its download page",
        point_at="the folder with references (R000000.jpg), queries (Q00000.jpg), training images (T000000.jpg) and the "
        "ground truth CSV",
        counts={"reference images": 1_000_000, "training images": 1_000_000, "query images": 50_000},
        people=False,
    ),
    Facts(
        name="folders",
        title="a folder per person",
        owner="you",
        page="",
        terms="yours",
        point_at="a folder with a sub-folder of images for each person, here or a few folders down",
    ),
    Facts(
        name="csv",
        title="a CSV file",
        owner="you",
        page="",
        terms="yours",
        point_at="a CSV file with columns path, identity and, optionally, split; paths are relative to its folder",
    ),
)
FACTS: Mapping[str, Facts] = {facts.name: facts for facts in _ALL}


def facts_of(name: str) -> Facts:
    """Return the facts of a data set by name.

    Raises
    ------
    UsageError
        No such data set.
    """
    if name not in FACTS:
        raise UsageError(f"no data set {name!r}; there are {', '.join(FACTS)}")
    return FACTS[name]
