"""Mechanisms between the camera and the network: DCTDP and its baselines, on one interface."""
