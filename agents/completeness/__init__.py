"""What a result lacks: one algebra of lacks and labels for workers, payloads, masters, panes, shares and joins."""
