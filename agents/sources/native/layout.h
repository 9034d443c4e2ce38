/* Lines taken apart by programs. */
#ifndef LINES_LAYOUT_H
#define LINES_LAYOUT_H

#include "program.h"

/* What a line has that says no time (elf.agents.sources.times.zones.NO_TIME). */
#define NO_TIME INT64_MIN
/* Numbers of a misfit: the line, the layout that got furthest, its step, the byte of the line. */
#define MISFIT_NUMBERS 4

/* The caller's arrays, with room for all lines. */
typedef struct {
    int32_t *const *spans;
    ptrdiff_t span_count;
    int64_t *times;
    uint8_t *layouts;
    int32_t *misfits;
} Outputs;

/* layout.c: DONE, BAD or NO_MEMORY; how many lines fit, and how many do not. */
int take_apart(Program *programs, ptrdiff_t count, const Block *block, const int64_t *ends, ptrdiff_t lines,
               const Outputs *out, ptrdiff_t *fitting, ptrdiff_t *unfit);

#endif
