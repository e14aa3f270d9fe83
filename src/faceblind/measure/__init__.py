"""Numbers only, numpy in and numpy out.

Conventions
-----------
Scores are cosines; a pair is accepted iff ``score >= threshold``. *Mated* pairs show one identity, *non-mated*
pairs two. TAR (true accept rate) is the accepted share of mated pairs, FAR (false accept rate) that of non-mated
pairs; FNMR = 1 - TAR and FMR = FAR under this rule. All cross-identity pairs are scored; nothing is sampled.

Metrics
-------
`score_tail`           every mated score, the exact top of the non-mated scores, and the counts
`template_tail`        the same for queries against templates
`threshold_at`         the one threshold rule (at most the target FAR)
`SubjectBootstrap`     draws of people, not pairs
`subject_interval`     the interval of a rate from such draws, also when few people carry a small leak
`operating_point`      TAR at a threshold with interval, grade and achieved FAR; `mean_point` over seeds
`paired_difference`    whether A leaks less than B on the same people
`simultaneous_upper`   what the worst of several attackers does not exceed; `holm` for several comparisons
`partial_auc`          mean TAR over the FARs up to 1e-3
`unlinkability`        D_sys with its permutation null
`extrapolate_tar`      TAR below the FAR floor, always labelled extrapolated
`det_curve`            the detection-error trade-off and the equal error rate
`parse_metric`         ``TAR@FAR(1e-4)`` as a value object; `parse_condition` for ``TAR@FAR(1e-4) > 5%``
"""

from faceblind.measure.blocks import pairs_above
from faceblind.measure.curve import DetCurve, det_curve
from faceblind.measure.extreme import Extrapolation, extrapolate_tar
from faceblind.measure.intervals import SubjectBootstrap, percentile_interval
from faceblind.measure.limits import subject_interval
from faceblind.measure.metric import EER, TAR, Condition, Metric, parse_condition, parse_metric
from faceblind.measure.multiple import benjamini_hochberg, holm, simultaneous_upper
from faceblind.measure.operating import allowed_false_accepts, grade_of, supported_far, threshold_at
from faceblind.measure.paired import PairedDifference, paired_difference
from faceblind.measure.pauc import PartialAuc, partial_auc
from faceblind.measure.point import MeanPoint, OperatingPoint, Threshold, far_interval, mean_point, operating_point
from faceblind.measure.scan import score_tail, template_tail
from faceblind.measure.tail import ScoreTail
from faceblind.measure.unlinkability import Unlinkability, unlinkability

__all__ = [
    "EER",
    "TAR",
    "Condition",
    "DetCurve",
    "Extrapolation",
    "MeanPoint",
    "Metric",
    "OperatingPoint",
    "PairedDifference",
    "PartialAuc",
    "ScoreTail",
    "SubjectBootstrap",
    "Threshold",
    "Unlinkability",
    "allowed_false_accepts",
    "benjamini_hochberg",
    "det_curve",
    "extrapolate_tar",
    "far_interval",
    "grade_of",
    "holm",
    "mean_point",
    "operating_point",
    "paired_difference",
    "pairs_above",
    "parse_condition",
    "parse_metric",
    "partial_auc",
    "percentile_interval",
    "score_tail",
    "simultaneous_upper",
    "subject_interval",
    "supported_far",
    "template_tail",
    "threshold_at",
    "unlinkability",
]
