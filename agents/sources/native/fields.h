/* The most frequent values of fields, read where they stand. What is none of these goes to the field's reader, which
 * knows all that there are. Outside of quotes the newline behind a line ends a value as control bytes do, and so do the
 * zeros behind a copy, so that nothing here looks for the line's end. */
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
    Hits others = digits_in(load(at)) ^ EVERY_HIT;
    int size = others ? first_hit(others) : 0;
    if (size == 0 || !step->ends[at[size]])
        return step->read(step, line, at, value);
    return put_value(value, at, at + size);
}

/* Digits, with a point or without. */
static inline const uint8_t *take_number(Step *step, Line *line, const uint8_t *at, Value *value)
{
    Vector text = load(at);
    Hits points = hits(equal(text, every('.')));
    Hits others = (points | digits_in(text)) ^ EVERY_HIT;
    int size = others ? first_hit(others) : 0;
    points &= hits_before(size);
    if (size < 2 - (points == 0) || (points && without_first(points)) || !step->ends[at[size]])
        return step->read(step, line, at, value);
    return put_value(value, at, at + size);
}

/* The same time as that of the line before. */
static inline const uint8_t *take_time(Step *step, Line *line, const uint8_t *at, Value *value)
{
    const Remembered *newest = &step->newest;
    if ((size_t)(line->end - at) < newest->quick)
        return step->read(step, line, at, value);
    Hits first = hits(equal(load(at), load(newest->text))) & newest->wanted[0];
    Hits second = hits(equal(load(at + VECTOR_BYTES), load(newest->text + VECTOR_BYTES))) & newest->wanted[1];
    if (first != newest->wanted[0] || second != newest->wanted[1])
        return step->read(step, line, at, value);
    value->ms = newest->ms;
    return put_value(value, at, at + newest->size);
}

static inline const uint8_t *take_field(Step *step, Line *line, const uint8_t *at, Value *value)
{
    switch (step->code) {
    case DO_QUOTED: return take_quoted(step, line, at, value);
    case DO_REQUEST: return take_request(step, line, at, value);
    case DO_WORD: return take_word(step, line, at, value);
    case DO_PEER: return take_peer(step, line, at, value);
    case DO_HOST: return take_host(step, line, at, value);
    case DO_IDENT: return take_ident(step, line, at, value);
    case DO_USER: return take_user(step, line, at, value);
    case DO_STATUS: return take_status(step, line, at, value);
    case DO_DIGITS: return take_digits(step, line, at, value);
    case DO_NUMBER: return take_number(step, line, at, value);
    case DO_TIME: return take_time(step, line, at, value);
    default:
        while (step->pads && at < line->end && *at == ' ')
            at++;
        return step->read(step, line, at, value);
    }
}

/* How a field is read; of one that has unusual stops all is left to the reader. */
static inline uint8_t code_of(const Step *step)
{
    if (step->quoted && !step->pads && step->ends_at_quote)
        return step->kind == QUOTED ? DO_QUOTED : step->kind == REQUEST ? DO_REQUEST : DO_READ;
    if (step->kind == TIME && !step->pads)
        return DO_TIME;
    if (step->quoted || step->pads || step->marks > MARKS)
        return DO_READ;
    for (int byte = 0; byte < 256; byte++)
        if (is_stop(step, (uint8_t)byte) && is(INNER, (uint8_t)byte))
            return DO_READ;
    switch (step->kind) {
    case WORDS: return DO_WORD;
    case IP:
    case ADDR: return DO_PEER;
    case HOST: return DO_HOST;
    case IDENTS: return DO_IDENT;
    case USER: return step->after_mask ? DO_USER : DO_READ;
    case STATUS: return DO_STATUS;
    case INT:
    case BYTES: return DO_DIGITS;
    case NUMBER: return DO_NUMBER;
    default: return DO_READ;
    }
}

#endif
