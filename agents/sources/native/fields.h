/* The most frequent values of fields, read where they stand; program.c says for which fields. What is none of these
 * goes to the field's reader, which knows all that there are. Outside of quotes the newline behind a line ends a value
 * as control bytes do, and so do the zeros behind a copy, so that nothing here looks for the line's end. */
#ifndef LINES_FIELDS_H
#define LINES_FIELDS_H

#include "hosts.h"
#include "scan.h"

static inline const uint8_t *put_value(Value *value, const uint8_t *begin, const uint8_t *end)
{
    value->begin = begin;
    value->end = end;
    return end;
}

static inline const uint8_t *take_quoted(Step *step, Line *line, const uint8_t *at, Value *value)
{
    const uint8_t *end = quote_end(at, line->end);
    put_text(value, at, end);
    return end;
}

static inline const uint8_t *take_request(Step *step, Line *line, const uint8_t *at, Value *value)
{
    const uint8_t *end = take_quoted(step, line, at, value);
    if (end == at)
        value->begin = NULL;
    return end;
}

static inline const uint8_t *take_word(Step *step, Line *line, const uint8_t *at, Value *value)
{
    const uint8_t *end = bare_end(step, at);
    if (end == at || *at == '"')
        return step->read(step, line, at, value);
    put_text(value, at, end);
    return end;
}

/* An IPv4 address; before a port, too. */
static inline const uint8_t *take_peer(Step *step, Line *line, const uint8_t *at, Value *value)
{
    const uint8_t *end = ipv4_end(at);
    if (end == NULL)
        return step->read(step, line, at, value);
    if (step->before_port ? is_before_port(end) : step->ends[*end])
        return put_value(value, at, end);
    return step->read(step, line, at, value);
}

static inline const uint8_t *take_host(Step *step, Line *line, const uint8_t *at, Value *value)
{
    const uint8_t *end = name_end(at);
    if (end != NULL && (step->before_port ? is_before_port(end) : step->ends[*end]))
        return put_value(value, at, end);
    return step->read(step, line, at, value);
}

static inline const uint8_t *take_ident(Step *step, Line *line, const uint8_t *at, Value *value)
{
    if (*at != '-' || !step->ends[at[1]])
        return step->read(step, line, at, value);
    line->has_ident = 0;
    value->begin = NULL;
    return at + 1;
}

static inline const uint8_t *take_user(Step *step, Line *line, const uint8_t *at, Value *value)
{
    uint64_t word;
    memcpy(&word, at + 1, sizeof word);
    if (*at != '-' || (word ^ step->after_word) & step->after_mask)
        return step->read(step, line, at, value);
    value->begin = NULL;
    return at + 1;
}

static inline const uint8_t *take_status(Step *step, Line *line, const uint8_t *at, Value *value)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    uint32_t digits = word & 0xF0F0F0, carried = (word + 0x060606) & 0xF0F0F0;
    if (digits != 0x303030 || carried != 0x303030 || !step->ends[word >> 24])
        return step->read(step, line, at, value);
    return put_value(value, at, at + 3);
}

static inline const uint8_t *take_digits(Step *step, Line *line, const uint8_t *at, Value *value)
{
    Hits others = hits(no_digit(load(at)));
    size_t size = others ? first_hit(others) : 0;
    if (size == 0 || !step->ends[at[size]])
        return step->read(step, line, at, value);
    return put_value(value, at, at + size);
}

/* Where digits end that have one point or none; NULL if there are none, or too many to tell. */
static inline const uint8_t *number_end(const uint8_t *at)
{
    Vector text = load(at);
    Hits points = hits(equal(text, every('.')));
    Hits others = hits(no_digit(text)) ^ points;
    size_t size = others ? first_hit(others) : 0;
    points &= hits_before(size);
    return size < 1 + (size_t)(points != 0) || (points && without_first(points)) ? NULL : at + size;
}

static inline const uint8_t *take_number(Step *step, Line *line, const uint8_t *at, Value *value)
{
    const uint8_t *end = number_end(at);
    return end != NULL && step->ends[*end] ? put_value(value, at, end) : step->read(step, line, at, value);
}

/* Whether nothing is joined to an item of a list that ends here. */
static inline int ends_list(const Step *step, const uint8_t *at)
{
    if (*at == ' ')
        return at[1] != ':';
    return *at < 32 || *at == '"' || (*at == ']' && is_stop(step, ']'));
}

/* One item; an address with a port, if it is one of addresses. */
static inline const uint8_t *take_list(Step *step, Line *line, const uint8_t *at, Value *value)
{
    const uint8_t *end = at;
    if (step->kind == KIND_STATUSES) {
        while (end < at + 3 && is(DIGIT, *end))
            end++;
        end = end == at + 3 ? end : NULL;
    } else if (step->kind == KIND_NUMBERS) {
        end = number_end(at);
    } else if ((end = ipv4_end(at)) != NULL && *end == ':') {
        const uint8_t *port = ++end;
        while (is(DIGIT, *end) && end < port + 6)
            end++;
        end = end > port && end < port + 6 ? end : NULL;
    }
    return end != NULL && ends_list(step, end) ? put_value(value, at, end) : step->read(step, line, at, value);
}

/* The same time as that of the line before, but for the part of a second. */
static inline const uint8_t *take_time(Step *step, Line *line, const uint8_t *at, Value *value)
{
    const Remembered *newest = step->newest;
    if ((size_t)(line->end - at) < newest->looked_at)
        return step->read(step, line, at, value);
    for (int i = 0; i < newest->vectors; i++) {
        Vector text = load(at + i * VECTOR_BYTES);
        Hits same = hits(equal(text, load(newest->text + i * VECTOR_BYTES)));
        if ((same & newest->same[i]) != newest->same[i] || (digits_in(text) & newest->part[i]) != newest->part[i])
            return step->read(step, line, at, value);
    }
    value->ms = newest->ms;
    if (newest->part_digits) {
        const uint8_t *part = at + newest->part_at;
        value->ms += (part[0] - '0') * 100;
        value->ms += newest->part_digits > 1 ? (part[1] - '0') * 10 : 0;
        value->ms += newest->part_digits > 2 ? part[2] - '0' : 0;
    }
    return put_value(value, at, at + newest->size);
}

/* What has no quick way. */
static inline const uint8_t *take_other(Step *step, Line *line, const uint8_t *at, Value *value)
{
    while (step->pads && at < line->end && *at == ' ')
        at++;
    return step->read(step, line, at, value);
}

#endif
