/* Dictionaries of a column's values, which outlast blocks: their arrays are the caller's, who has them grow. */
#ifndef LINES_DICTIONARY_H
#define LINES_DICTIONARY_H

#include "lines.h"

typedef struct {
    uint64_t *slots; /* a power of two; 0: free, else half of the hash, and the code + 1 */
    ptrdiff_t slot_count;
    uint8_t *texts; /* one after the other */
    ptrdiff_t room;
    int64_t *offsets; /* where each begins, and the last one ends */
    ptrdiff_t most;   /* texts there is room for */
    ptrdiff_t known;
} Dictionary;

/* dictionary.c: of each row from one on the number of its value; new ones get the next numbers. The row whose value
 * there is no room for, or the number of rows; BAD: the arrays do not fit together. */
ptrdiff_t look_up(Dictionary *dictionary, const Block *block, const Spans *spans, ptrdiff_t row, uint32_t *codes,
                  uint8_t *valid, ptrdiff_t *nulls);

/* Fill slots, all of which are free, with what there is: how much of it, or BAD. All of it, unless too much is alike. */
ptrdiff_t fill_slots(Dictionary *dictionary);

#endif
