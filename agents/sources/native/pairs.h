/* Lines of names and values. */
#ifndef LINES_PAIRS_H
#define LINES_PAIRS_H

#include "lines.h"

/* How they are written (elf.agents.sources.pairs.line). */
enum Style { LTSV = 1, LOGFMT, STYLES };

/* A name whose values are wanted. */
typedef struct {
    const uint8_t *at;
    size_t size;
} Name;

/* What is read of lines; arrays with room for all of them. */
typedef struct {
    const Name *names;
    int32_t *const *spans; /* of each name */
    ptrdiff_t count;
    int32_t *misfits; /* the line and the byte where it stops to fit */
} Pairs;

/* pairs.c: DONE, BAD or NO_MEMORY; how many lines fit, and how many do not. */
int take_pairs(int style, const Block *block, const int64_t *ends, ptrdiff_t lines, const Pairs *out,
               ptrdiff_t *fitting, ptrdiff_t *unfit);

#endif
