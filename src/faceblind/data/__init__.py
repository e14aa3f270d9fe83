"""Tables of embeddings, identity-disjoint splits, and hygiene."""
