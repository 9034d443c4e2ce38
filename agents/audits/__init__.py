"""Claims of members of a tree merged again from what agents have sealed: who alters what it merges is found out."""
