"""Numbers only, numpy in and numpy out.

Conventions
-----------
Scores are cosines; a pair is accepted iff ``score >= threshold``. *Mated* pairs show one identity, *non-mated*
pairs two. TAR (true accept rate) is the accepted share of mated pairs, FAR (false accept rate) that of non-mated
pairs; FNMR = 1 - TAR and FMR = FAR under this rule. All cross-identity pairs are scored; nothing is sampled.

Metrics
-------
`score_tail`           every mated score, the exact top of the non-mated scores, and the counts
`threshold_at`         the one threshold rule (at most the target FAR)
`SubjectBootstrap`     intervals that resample people, not pairs
`det_curve`            the detection-error trade-off and the equal error rate
`parse_metric`         ``TAR@FAR(1e-4)`` as a value object; `parse_condition` for ``TAR@FAR(1e-4) > 5%``
"""

from faceblind.measure.blocks import pairs_above
from faceblind.measure.curve import DetCurve, det_curve
from faceblind.measure.intervals import SubjectBootstrap, percentile_interval
from faceblind.measure.metric import EER, TAR, Condition, Metric, parse_condition, parse_metric
from faceblind.measure.operating import allowed_false_accepts, grade_of, supported_far, threshold_at
from faceblind.measure.tail import ScoreTail, score_tail

__all__ = [
    "EER",
    "TAR",
    "Condition",
    "DetCurve",
    "Metric",
    "ScoreTail",
    "SubjectBootstrap",
    "allowed_false_accepts",
    "det_curve",
    "grade_of",
    "pairs_above",
    "parse_condition",
    "parse_metric",
    "percentile_interval",
    "score_tail",
    "supported_far",
    "threshold_at",
]
