/* Chunks of lines, looked at as a whole. No byte behind a chunk is read. */
#ifndef LINES_SWEEP_H
#define LINES_SWEEP_H

#include "lines.h"

/* Bytes up to this one are rare in lines, but for the newline: a carriage return. */
#define LAST_ODD 13

/* Write the places of newlines, as many as there is room for; how many there are. The chunk is plain if it has no other
 * byte up to the carriage return, no line that may begin with a byte order mark, and none that is longer than so much;
 * of a last line without a newline that is not said. */
ptrdiff_t find_lines(const uint8_t *chunk, ptrdiff_t size, ptrdiff_t longest, int64_t *ends, ptrdiff_t room,
                     int *is_plain, int *is_utf8);
int is_valid_utf8(const uint8_t *at, ptrdiff_t size);

#endif
