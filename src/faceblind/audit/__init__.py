"""The audit: plan -> run -> result -> report."""
