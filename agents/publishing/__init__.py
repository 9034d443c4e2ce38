"""Publishing a job and finding its master: types, candidates, holds, lookups (paper, section 2.3)."""
