"""Recognise faces that people cannot view: noised frequency coefficients with learnable privacy budgets (DCTDP).

Something is released instead of the face (`releases`), an attacker works on the release (`attacks`), a network still
recognises people in it (`training`, `evaluation`), and all of it is measured.
"""
