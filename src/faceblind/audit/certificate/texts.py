"""What every certificate says in the same words: what it is, what ends it, what it does not claim, how to verify it."""

from __future__ import annotations

FORMAT = "faceblind.certificate/1"

WHAT = (
    "Evidence about one projector: what the listed attackers read about identity from the vectors of one table, as given and "
    "after the projector, with the controls, the cost and the limits. Whoever has the projector and the table can recompute it."
)

INVALIDATED_BY = (
    "Another encoder, or the same one with other weights, pooling, preprocessing or precision than the fingerprint here says.",
    "Any change to the projector: a file with another SHA-256 or digest is another map.",
    "Another way of applying it, for example without rescaling to unit length, or stored in fewer bits than float16.",
    "Other people or other kinds of photograph than those of the table: they need an audit of their own.",
    "Releasing more than the vectors, such as file names, times or the vectors as given, with which they can be linked.",
    "An attacker that reads more than those listed here, whether published or found in your own tests.",
    "A correction of the table: labels, duplicates or images that the figures rest on.",
    "The date of expiry.",
)

NON_CLAIMS = (
    "It does not say that no identity is left in the vectors. It says what these attackers read on these test people.",
    "It does not bound attackers that were not tried. What was not found is not shown to be absent; the planted leaks say how "
    "strong a leak would have been found.",
    "The linear guarantee of the projection concerns the mean vectors of the people it was fitted on, before rescaling. For "
    "everyone else what remains is measured, not guaranteed.",
    "It is no template protection: the map is not secret and not renewable, and whoever has the vectors as given can link them.",
    "It says nothing about what else can be read from the vectors, such as age, sex, origin or the scene of the photograph.",
    "It does not say that the vectors are, or are not, personal or biometric data, nor that any law is met.",
    "Nobody but its issuer stands behind it. A signature says which key signed; it does not say who holds the key, nor that the "
    "figures are right. Recomputing them does.",
    "The issuer chose the table, the split, the seed and the plan. One file cannot show how many others were tried.",
)

HOW_TO_VERIFY = (
    "Without the data (format, digests, signature, dates, agreement of its parts): faceblind verify certificate.json",
    "With the data (every number is computed again and compared): "
    "faceblind verify certificate.json --projector PROJECTOR --table TABLE",
    "To require a signature by a key that you know: add --public-key PUBLIC.pem",
)

EFFECTS = {
    "error": "no conclusion is drawn from the figures",
    "warning": "the figures are given; it may bias them",
    "note": "none",
}
"""What a finding about the data did to the certificate, by its severity."""
