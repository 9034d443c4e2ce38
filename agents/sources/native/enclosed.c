/* Values that know by themselves where they end: between quotes or braces, a request, a query, the rest of a line. */
#include "scan.h"

static const uint8_t *read_rest(Step *step, Line *line, const uint8_t *at, Value *value)
{
    value->begin = NULL;
    if (at < line->end)
        put_text(value, at, line->end);
    return line->end;
}

/* A "-" of its own stands for a text that there is not. */
static const uint8_t *read_missing(const Step *step, Line *line, const uint8_t *at, Value *value)
{
    value->begin = NULL;
    return at < line->end && *at == '-' && ends_here(step, line, at + 1) ? at + 1 : misfit(line, at);
}

static const uint8_t *read_between_quotes(Step *step, Line *line, const uint8_t *at, Value *value)
{
    if (at < line->end && *at == '"') {
        const uint8_t *end = quote_end(at + 1, line->end);
        if (end < line->end) {
            put_text(value, at + 1, end);
            return end + 1;
        }
    }
    return read_missing(step, line, at, value);
}

static const uint8_t *read_braced(Step *step, Line *line, const uint8_t *at, Value *value)
{
    const uint8_t *end = at < line->end && *at == '{' ? find_byte('}', at, line->end) : line->end;
    if (end == line->end)
        return misfit(line, at);
    put_text(value, at + 1, end);
    return end + 1;
}

/* Three words, of which the third is a protocol. */
static const uint8_t *read_bare_request(Step *step, Line *line, const uint8_t *at, Value *value)
{
    const uint8_t *limit = line->end, *method = class_end(WORD, at, limit);
    if (method > at && method < limit && *method == ' ') {
        const uint8_t *uri = class_end(WORD, method + 1, limit);
        if (uri > method + 1 && uri < limit && *uri == ' ') {
            const uint8_t *slash = class_end(UPPER, uri + 1, limit);
            if (slash > uri + 1 && limit - slash >= 2 && *slash == '/' && is(DIGIT, slash[1])) {
                int has_point = limit - slash >= 4 && slash[2] == '.' && is(DIGIT, slash[3]);
                value->begin = at;
                value->end = slash + (has_point ? 4 : 2);
                return value->end;
            }
        }
    }
    return read_missing(step, line, at, value);
}

static const uint8_t *read_query(Step *step, Line *line, const uint8_t *at, Value *value)
{
    const uint8_t *end = run_end(step, at, line->end, step->quoted);
    value->begin = NULL;
    if (end > at && *at != '?')
        return misfit(line, at);
    if (end > at + 1) {
        value->begin = at + 1;
        value->end = end;
    }
    return end;
}

Reader reader_of(int kind, int quoted)
{
    switch (kind) {
    case KIND_REST: return read_rest;
    case KIND_TIME: return read_time;
    case KIND_QTEXT:
    case KIND_QREQUEST: return read_between_quotes;
    case KIND_BRACED: return read_braced;
    case KIND_QUERY: return read_query;
    case KIND_ADDRESSES:
    case KIND_UPSTREAMS:
    case KIND_STATUSES:
    case KIND_NUMBERS: return read_list;
    case KIND_REQUEST: return quoted ? run_reader(kind, quoted) : read_bare_request;
    case KIND_USER: return quoted ? run_reader(kind, quoted) : read_user;
    default: return run_reader(kind, quoted);
    }
}
