"""Answers about a job, one way for all: its masters located, their shares taken, put together, rendered and followed.

A job is m >= 1 parts, of most jobs one, and each part's master has a share of every window.

1. Who is asked locates the master of the first part, or of all where it knows that there are several (`location`).
2. Each brings its share: rows finished, sorted and cut, its label, and how far it is (`elf.agents.master.share`). The
   master of a job's one part has the whole answer in its share, and renders it itself (`answerer`); of several parts
   shares travel as columns (`shares`), and whoever is asked takes them for one window and version (`gatherer`).
3. Shares make an `Answer`: rows merged, labels joined; it is rendered once, as JSON (`answerer.rendered`).

Other kinds of shares go the same way: what one side of a split job has (`split`), whose label says so, and the answers
of the jobs that a job reads, which its master asks for and joins (`joined_results`).

Following is the same way. A master's news are the windows that closed or changed (`elf.agents.master.announcement`).
That of the one part sends their results; of several masters each says which (`listener`), and once all have come as far
(`due`) the result is asked for as any other (`follower`).
"""
