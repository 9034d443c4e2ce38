/* Records of CSV, of which one may have several lines. No byte behind the lines is read. */
#ifndef LINES_RECORDS_H
#define LINES_RECORDS_H

#include "lines.h"

/* Lines, each with its newline, and what records of them may be. */
typedef struct {
    const uint8_t *data;
    const int64_t *ends;
    ptrdiff_t count;
    uint8_t separator;
    ptrdiff_t bytes_max, lines_max;
} RecordLines;

/* Write the number of the line that each record ends with, in their order; how many there are. `begun` is the number of
 * the line with which one begins whose end is not there; how many lines there are if there is none. */
ptrdiff_t find_records(const RecordLines *lines, int64_t *lasts, ptrdiff_t *begun);

#endif
