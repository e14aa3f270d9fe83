"""Whether a projector goes with vectors, wherever they are: their encoder, their length, and that they are raw."""

from __future__ import annotations

from faceblind._errors import ProjectorError
from faceblind.data.meta import TableMeta
from faceblind.erase import Projector


def cautions_for(
    projector: Projector, meta: TableMeta, dim: int, name: object, *, remedy: str, force: bool
) -> tuple[str, ...]:
    """Refuse vectors that a projector is not for.

    Parameters
    ----------
    meta, dim
        What is recorded of the vectors, and their length.
    name
        What they are called in messages.
    remedy : str
        What to do about vectors that are clean already.
    force : bool
        Go on although the encoder is another one or the vectors were projected before, with a caution.

    Returns
    -------
    tuple of str
        Cautions.

    Raises
    ------
    EncoderError
        The vectors are from another encoder.
    ProjectorError
        They have another length, or were projected before.
    """
    said = projector.check_encoder(meta.encoder, force=force)
    cautions = [said] if said else []
    before = meta.projector
    if before is not None:
        what = "this projector" if before == projector.digest else f"another projector ({before[:12]})"
        if not force:
            raise ProjectorError(f"{name} was already put through {what}; {remedy}, or pass --force")
        cautions.append(f"{name} was already put through {what}; forced")
    if dim != projector.dim:
        raise ProjectorError(f"the projector is for vectors of {projector.dim} features, {name} has {dim}")
    return tuple(cautions)
