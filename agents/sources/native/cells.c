/* Values of CSV: bare, or between quotes, where a quote is written twice and nothing else is escaped. */
#include "scan.h"

static int is_nothing(const uint8_t *at, const uint8_t *end)
{
    return at == end || (end - at == 1 && *at == '-');
}

/* Where a bare value ends: at a stop, of which a quote is one, or a control byte. */
static const uint8_t *bare_cell_end(const Step *step, const uint8_t *at, const uint8_t *end)
{
    if (step->marks <= MARKS)
        return bare_end(step, at);
    while (at < end && !step->ends[*at])
        at++;
    return at;
}

/* The quote that ends a value; NULL: none does. */
static const uint8_t *closing_quote(const uint8_t *at, const uint8_t *end)
{
    for (;;) {
        const uint8_t *quote = find_byte('"', at, end);
        if (quote == end)
            return NULL;
        if (quote + 1 == end || quote[1] != '"')
            return quote;
        at = quote + 2;
    }
}

const uint8_t *read_cell(Step *step, Line *line, const uint8_t *at, Value *value)
{
    int is_quoted = at < line->end && *at == '"';
    const uint8_t *begin = at + is_quoted;
    const uint8_t *end = is_quoted ? closing_quote(begin, line->end) : bare_cell_end(step, at, line->end);
    if (end == NULL)
        return misfit(line, at);
    const uint8_t *next = end + is_quoted;
    if (is_quoted && !ends_here(step, line, next))
        return misfit(line, at);
    if ((step->kind == KIND_TIME || has_brackets(step->kind)) && end - begin > 1 && *begin == '[' && end[-1] == ']') {
        begin++;
        end--;
    }
    if (step->kind == KIND_TIME) {
        Line within = {line->begin, end, line->has_ident, NULL};
        return read_time(step, &within, begin, value) == end ? next : misfit(line, at);
    }
    value->begin = NULL;
    line->has_ident = step->kind != KIND_IDENT && line->has_ident;
    if (step->kind != KIND_TEXT && is_nothing(begin, end))
        return next;
    if (step->kind == KIND_STATUS && same(begin, end, "-1"))
        return next;
    if (!is_of_kind(step->kind, begin, end))
        return misfit(line, at);
    value->begin = begin;
    value->end = end;
    line->has_ident = step->kind == KIND_IDENT || line->has_ident;
    return next;
}
