/* Where records of CSV end: a value between quotes may hold newlines. */
#include <string.h>

#include "records.h"

#define OPEN (-1)

/* The quote that ends a value, however far behind; NULL: none does. Behind each quote there is at least a newline. */
static const uint8_t *closing(const uint8_t *at, const uint8_t *end)
{
    while ((at = memchr(at, '"', (size_t)(end - at))) != NULL) {
        if (at[1] != '"')
            return at;
        at += 2;
    }
    return NULL;
}

/* The line that a record ends with which begins with a line; that line itself if it is no record; OPEN. */
static ptrdiff_t last_line(const RecordLines *lines, ptrdiff_t first)
{
    const uint8_t *begin = lines->data + (first ? lines->ends[first - 1] + 1 : 0), *at = begin;
    const uint8_t *end = lines->data + lines->ends[first], *behind = lines->data + lines->ends[lines->count - 1] + 1;
    ptrdiff_t line = first;
    if (memchr(at, '"', (size_t)(end - at)) == NULL)
        return first;
    for (;;) {
        if (at == end || *at != '"') {
            while (at < end && *at != lines->separator && *at != '"')
                at++;
            if (at == end)
                return line;
            if (*at == '"')
                return first;
            at++;
            continue;
        }
        const uint8_t *quote = closing(at + 1, behind);
        if (quote == NULL) {
            int is_short = behind - begin <= lines->bytes_max && lines->count - first <= lines->lines_max;
            return is_short ? OPEN : first;
        }
        while (end < quote) {
            line++;
            end = lines->data + lines->ends[line];
        }
        if (end - begin > lines->bytes_max || line - first >= lines->lines_max)
            return first;
        at = quote + 1;
        if (at == end)
            return line;
        if (*at != lines->separator)
            return first;
        at++;
    }
}

ptrdiff_t find_records(const RecordLines *lines, int64_t *lasts, ptrdiff_t *begun)
{
    ptrdiff_t count = 0, line = 0;
    while (line < lines->count) {
        ptrdiff_t last = last_line(lines, line);
        if (last == OPEN)
            break;
        lasts[count++] = last;
        line = last + 1;
    }
    *begun = line;
    return count;
}
