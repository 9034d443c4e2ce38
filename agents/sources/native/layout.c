/* Lines taken apart by the steps of programs, which never go back; elf.agents.sources.layouts.line defines it. */
#include <stdlib.h>

#include "fields.h"
#include "layout.h"
#include "scan.h"

#define PREFETCH_BYTES 512

/* A line that is being taken apart. */
typedef struct {
    Line line;
    uintptr_t origin; /* where its block begins; of a copy, where it would */
    ptrdiff_t row;
    const Step *failed;
} Reading;

/* A text that ends at the rightmost quote behind which the rest of the line fits. */
typedef struct {
    Step *step; /* NULL: there is none, or it has not been met */
    const uint8_t *begin, *quote;
    int has_ident;
} Loose;

static inline int has_literal(const Step *step, const uint8_t *at, const uint8_t *end)
{
    if ((size_t)(end - at) < step->text.size)
        return 0;
    uint64_t word;
    memcpy(&word, at, sizeof word);
    if ((word ^ step->word) & step->mask)
        return 0;
    return step->text.size <= 8 || memcmp(at + 8, step->text.at + 8, step->text.size - 8) == 0;
}

/* Keep a value; 0: the line has another one at another place. */
static int keep(Value *known, const Value *value)
{
    if (known->begin != NULL) {
        size_t size = (size_t)(known->end - known->begin);
        if (value->begin == NULL || (size_t)(value->end - value->begin) != size ||
            memcmp(known->begin, value->begin, size) != 0)
            return 0;
    }
    if (value->begin != NULL)
        *known = *value;
    return 1;
}

static inline void put_output(int output, const Value *value, const Reading *reading, const Outputs *out)
{
    if (output == TIME_OUTPUT)
        out->times[reading->row] = value->ms;
    else if (value->begin == NULL)
        put_place(out->spans[output], reading->row, -1, -1);
    else
        put_place(out->spans[output], reading->row, (int32_t)((uintptr_t)value->begin - reading->origin),
                  (int32_t)((uintptr_t)value->end - reading->origin));
}

/* Where a text ends whose writer escapes nothing, at the latest: before a time of another line that is glued to it. */
static const uint8_t *before_glued(const uint8_t *at, const uint8_t *end)
{
    for (; (at = find_byte('[', at, end)) < end; at++)
        if (end - at > 12 && is(DIGIT, at[1]) && is(DIGIT, at[2]) && at[3] == '/' && at[7] == '/' &&
            is(DIGIT, at[8]) && is(DIGIT, at[9]) && is(DIGIT, at[10]) && is(DIGIT, at[11]) && at[12] == ':')
            return at;
    return end;
}

/* Let the text end at the next quote to the left; where the line goes on, NULL: there is none. */
static const uint8_t *next_quote(Program *program, Line *line, Loose *loose)
{
    const uint8_t *quote = loose->quote;
    while (quote > loose->begin) {
        if (*--quote != '"')
            continue;
        loose->quote = quote;
        line->has_ident = loose->has_ident;
        memcpy(program->found, program->before, program->kept * sizeof *program->found);
        Value value = {NULL, NULL, 0};
        put_text(&value, loose->begin, quote);
        if (loose->step->kept < 0 || keep(&program->found[loose->step->kept], &value))
            return quote;
    }
    return NULL;
}

/* Put a value where it goes; 0: the line has another one at another place. */
static int put_value_of(const Step *step, const Value *value, Program *program, const Reading *reading,
                        const Outputs *out)
{
    if (step->output == NO_OUTPUT)
        return keep(&program->found[step->kept], value);
    put_output(step->output, value, reading, out);
    return 1;
}

/* Run a program; whether the line fits. If not, the reading says where it stops. */
static int run(Program *program, Reading *reading, const Outputs *out)
{
    Line *line = &reading->line;
    const uint8_t *at = line->begin, *end = line->end, *next;
    Loose loose = {0};
    Step *step = program->steps;
    Value value;
    line->has_ident = 0;
    for (size_t i = 0; i < program->kept; i++)
        program->found[i].begin = NULL;
    for (;;) {
        switch (step->code) {
        case DO_LITERAL:
            if (!has_literal(step, at, end))
                goto unfit;
            at += step->text.size;
            step++;
            continue;
        case DO_PART:
            step = has_literal(step, at, end) ? step + 1 : program->steps + step->skip;
            continue;
        case DO_END:
            if (at == end || (program->is_open && *at == ' '))
                return 1;
            goto unfit;
        case DO_LOOSE:
            loose = (Loose){step, at, before_glued(at, end), line->has_ident};
            memcpy(program->before, program->found, program->kept * sizeof *program->found);
            goto unfit;
        case DO_QUOTED: next = take_quoted(step, line, at, &value); break;
        case DO_REQUEST: next = take_request(step, line, at, &value); break;
        case DO_WORD: next = take_word(step, line, at, &value); break;
        case DO_PEER: next = take_peer(step, line, at, &value); break;
        case DO_HOST: next = take_host(step, line, at, &value); break;
        case DO_IDENT: next = take_ident(step, line, at, &value); break;
        case DO_USER: next = take_user(step, line, at, &value); break;
        case DO_STATUS: next = take_status(step, line, at, &value); break;
        case DO_DIGITS: next = take_digits(step, line, at, &value); break;
        case DO_NUMBER: next = take_number(step, line, at, &value); break;
        case DO_LIST: next = take_list(step, line, at, &value); break;
        case DO_TIME: next = take_time(step, line, at, &value); break;
        default: next = take_other(step, line, at, &value);
        }
        at = next == NULL ? line->stopped : next;
        if (next != NULL && (!step->is_kept || put_value_of(step, &value, program, reading, out))) {
            uint64_t word;
            memcpy(&word, at, sizeof word);
            if (!((word ^ step->then) & step->then_mask)) {
                at += step->then_size;
                step = step->next;
                continue;
            }
            step++;
        }
    unfit:
        step = loose.step == NULL ? step : loose.step;
        next = loose.step == NULL ? NULL : next_quote(program, line, &loose);
        if (next == NULL) {
            line->stopped = loose.step == NULL ? at : loose.begin;
            reading->failed = step;
            return 0;
        }
        at = next;
        step++;
    }
}

/* Take a line apart by the first program that it fits; its number, or -1 and what is wrong with the line. */
static ptrdiff_t fit(Program *programs, ptrdiff_t count, Reading *reading, const Outputs *out, int32_t *misfit_numbers)
{
    ptrdiff_t furthest = -1;
    for (ptrdiff_t i = 0; i < count; i++) {
        Program *program = &programs[i];
        if (program->may_lack) {
            for (ptrdiff_t output = 0; output < out->span_count; output++)
                put_place(out->spans[output], reading->row, -1, -1);
            out->times[reading->row] = NO_TIME;
        }
        if (run(program, reading, out)) {
            for (size_t k = 0; k < program->kept; k++)
                if (program->outputs[k] != NO_OUTPUT && program->found[k].begin != NULL)
                    put_output(program->outputs[k], &program->found[k], reading, out);
            return i;
        }
        ptrdiff_t at = reading->line.stopped - reading->line.begin;
        if (at > furthest) {
            furthest = at;
            misfit_numbers[1] = (int32_t)i;
            misfit_numbers[2] = (int32_t)(reading->failed - program->steps);
            misfit_numbers[3] = (int32_t)at;
        }
    }
    return -1;
}

static int take_lines(Program *programs, ptrdiff_t count, const Block *block, const int64_t *ends, ptrdiff_t lines,
                      const Outputs *out, ptrdiff_t *fitting, ptrdiff_t *unfit, Copied *copy)
{
    const uint8_t *limit = block->bytes + block->size;
    int64_t begin = 0;
    for (ptrdiff_t i = 0; i < lines; i++) {
        /* Read once: the caller's arrays may lie where another one does. */
        int64_t end = ends[i];
        if (end < begin || end >= block->size || block->bytes[end] != '\n')
            return BAD;
        /* The next lines come from memory meanwhile. */
        __builtin_prefetch(block->bytes + end + PREFETCH_BYTES);
        Reading reading = {.row = *fitting};
        Line *line = &reading.line;
        line->begin = readable(copy, block->bytes + begin, (size_t)(end - begin), limit);
        if (line->begin == NULL)
            return NO_MEMORY;
        line->end = line->begin + (end - begin);
        reading.origin = (uintptr_t)line->begin - (uintptr_t)begin;
        int32_t misfit_numbers[MISFIT_NUMBERS] = {(int32_t)i};
        ptrdiff_t layout = fit(programs, count, &reading, out, misfit_numbers);
        if (layout >= 0) {
            out->layouts[(*fitting)++] = (uint8_t)layout;
        } else {
            memcpy(out->misfits + MISFIT_NUMBERS * (*unfit)++, misfit_numbers, sizeof misfit_numbers);
        }
        begin = end + 1;
    }
    return DONE;
}

int take_apart(Program *programs, ptrdiff_t count, const Block *block, const int64_t *ends, ptrdiff_t lines,
               const Outputs *out, ptrdiff_t *fitting, ptrdiff_t *unfit)
{
    Copied copy = {0};
    *fitting = *unfit = 0;
    int done = take_lines(programs, count, block, ends, lines, out, fitting, unfit, &copy);
    free(copy.bytes);
    return done;
}
