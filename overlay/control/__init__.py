"""What a tree's root says to all its agents, in order, and the records that spread over the tree."""
