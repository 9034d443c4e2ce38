/* Names of users, which may be of several words. */
#include "scan.h"

/* Where a text begins first; NULL: nowhere. */
static const uint8_t *find_text(Text text, const uint8_t *at, const uint8_t *end)
{
    for (; end - at >= (ptrdiff_t)text.size; at++) {
        at = find_byte(*text.at, at, end);
        if (end - at >= (ptrdiff_t)text.size && memcmp(at, text.at, text.size) == 0)
            return at;
    }
    return NULL;
}

/* Whether a digit, a colon and two digits are in a word. */
static int has_clock(const uint8_t *at, const uint8_t *end)
{
    for (; end - at >= 4; at++)
        if (is(DIGIT, at[0]) && at[1] == ':' && is(DIGIT, at[2]) && is(DIGIT, at[3]))
            return 1;
    return 0;
}

/* Whether each word may be one of several of a user's name. */
static int are_names(const uint8_t *at, const uint8_t *end)
{
    for (;; at++) {
        const uint8_t *word = at;
        at = find_byte(' ', at, end);
        if (word == at || !(is(LETTER, *word) || *word >= 0x80) || is_peer(word, at) || has_clock(word, at))
            return 0;
        if (at == end)
            return 1;
    }
}

const uint8_t *read_user(Step *step, Line *line, const uint8_t *at, Value *value)
{
    const uint8_t *end = step->after.size ? find_text(step->after, at, line->end) : line->end;
    if (end == NULL || end == at)
        return misfit(line, at);
    put_text(value, at, end);
    if (value->begin == NULL || same(at, end, "\"\""))
        return end;
    int spaces = 0, marks = 0;
    for (const uint8_t *byte = at; byte < end; byte++) {
        int is_escaped = *byte == '\\' && end - byte > 1 && (byte[1] == '"' || byte[1] == '\\');
        byte += is_escaped;
        if (*byte < 32 || *byte == '[' || *byte == ']' || (*byte == '"' && !is_escaped))
            return misfit(line, at);
        spaces += *byte == ' ';
        marks += *byte == '.' || *byte == ':';
    }
    /* All addresses have points or colons. */
    if (marks && (is_ip(at, end) || is_ip_port(at, end)))
        return misfit(line, at);
    if (spaces && (line->has_ident || !are_names(at, end)))
        return misfit(line, at);
    return end;
}
