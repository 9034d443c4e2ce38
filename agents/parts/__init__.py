"""Jobs whose keys are spread over several trees: their parts, and the answers of all put together (OVERLAY 6.3)."""
