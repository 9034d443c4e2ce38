/* Programs decoded; elf.agents.sources.layouts.program.encoded has their bytes. Whatever these are, what comes out can
 * be run, or is refused. */
#include <stdlib.h>

#include "input.h"
#include "program.h"

#define HEADER_BYTES 5
#define STEP_BYTES 40
#define STOPS_BYTES 32
#define FLAG_QUOTED 1
#define FLAG_PADS 2
#define FLAG_CELL 4
#define FLAG_MAY_LACK 8
#define FLAGS (FLAG_QUOTED | FLAG_PADS | FLAG_CELL | FLAG_MAY_LACK)

static int take_text(Input *input, Text *text)
{
    const uint8_t *size = take_bytes(input, 2);
    if (size == NULL)
        return BAD;
    text->size = u16(size);
    text->at = take_bytes(input, text->size);
    return text->at == NULL ? BAD : DONE;
}

/* How many times, notations and items of these the steps have. */
static int count_all(Input input, size_t steps, size_t *times, size_t *notations, size_t *items)
{
    *times = *notations = *items = 0;
    for (size_t i = 0; i < steps; i++) {
        const uint8_t *step = take_bytes(&input, STEP_BYTES);
        Text text;
        if (step == NULL || take_text(&input, &text) != DONE || take_text(&input, &text) != DONE)
            return BAD;
        for (int n = 0; n < step[7]; n++) {
            size_t count;
            if (take_text(&input, &text) != DONE || count_items(text, &count) != DONE)
                return BAD;
            *items += count;
        }
        *notations += step[7];
        *times += step[0] == FIELD && step[1] == KIND_TIME;
    }
    return input.at == input.end ? DONE : BAD;
}

/* What ends a value that knows nothing of itself, as a table and as bytes to look for. */
static void put_ends(Step *step)
{
    if (!step->quoted || step->cell) {
        memset(step->ends, 1, 32);
        step->ends['\t'] = 0;
    }
    for (int i = 0; i < STOPS_BYTES; i++) {
        for (unsigned bits = step->stops[i]; bits; bits &= bits - 1) {
            int byte = 8 * i + __builtin_ctz(bits);
            if (step->quoted && !step->cell && byte == '\\')
                continue;
            step->ends[byte] = 1;
            step->ends_in_names |= is(INNER, (uint8_t)byte);
            for (int mark = step->marks; mark < MARKS; mark++)
                memset(step->mark[mark], byte, VECTOR_BYTES);
            step->marks += step->marks <= MARKS;
        }
    }
    step->ends_at_quote = step->marks == 1 && step->ends['"'];
    /* Outside of quotes there need not be any: control bytes are looked for in any case. */
    if (step->marks == 0 && step->quoted)
        step->marks = MARKS + 1;
}

/* The first bytes of a text as a word, and which of eight these are. */
static void put_word(Text text, uint64_t *word, uint64_t *mask)
{
    size_t size = text.size < 8 ? text.size : 8;
    *word = 0;
    memcpy(word, text.at, size);
    *mask = size < 8 ? ((uint64_t)1 << 8 * size) - 1 : UINT64_MAX;
}

/* Whether a text fits in a word, and has no byte that is behind lines, so that it ends where a line does at the
 * latest. */
static int is_in_line(Text text)
{
    return text.size >= 1 && text.size <= 8 && memchr(text.at, 0, text.size) == NULL &&
           memchr(text.at, '\n', text.size) == NULL;
}

/* How a field is read; of one that has unusual stops all is left to the reader. */
static uint8_t code_of(const Step *step)
{
    if (step->kind == KIND_LOOSE)
        return DO_LOOSE;
    if (step->cell || (step->may_lack && step->quoted))
        return DO_READ;
    if (step->quoted && !step->pads && step->ends_at_quote)
        return step->kind == KIND_QUOTED ? DO_QUOTED : step->kind == KIND_REQUEST ? DO_REQUEST : DO_READ;
    if (step->kind == KIND_TIME && !step->pads)
        return DO_TIME;
    if (step->kind >= KIND_ADDRESSES && step->kind <= KIND_NUMBERS && !step->pads)
        return DO_LIST;
    if (step->quoted || step->pads || step->marks > MARKS || step->ends_in_names)
        return DO_READ;
    switch (step->kind) {
    case KIND_TEXT:
    case KIND_WORD: return DO_WORD;
    case KIND_IP:
    case KIND_ADDR: return DO_PEER;
    case KIND_HOST: return DO_HOST;
    case KIND_IDENT: return DO_IDENT;
    case KIND_USER: return step->after_mask ? DO_USER : DO_READ;
    case KIND_STATUS: return DO_STATUS;
    case KIND_INT:
    case KIND_BYTES: return DO_DIGITS;
    case KIND_NUMBER: return DO_NUMBER;
    default: return DO_READ;
    }
}

/* Nothing, which is null, or a value. */
static const uint8_t *read_or_nothing(Step *step, Line *line, const uint8_t *at, Value *value)
{
    if (!ends_here(step, line, at))
        return step->own(step, line, at, value);
    value->begin = NULL;
    return at;
}

static int put_step(Step *step, const uint8_t *bytes, Input *input)
{
    *step = (Step){.kind = bytes[1], .skip = u16(bytes + 4), .stops = bytes + 8, .output = NO_OUTPUT};
    step->kept = (int16_t)u16(bytes + 2);
    step->quoted = bytes[6] & FLAG_QUOTED;
    step->pads = (bytes[6] & FLAG_PADS) != 0;
    step->cell = (bytes[6] & FLAG_CELL) != 0;
    step->notation_count = bytes[7];
    uint8_t op = bytes[0];
    if (op < LITERAL || op >= OPS || step->kind < KIND_WORD || step->kind >= KINDS)
        return BAD;
    if (bytes[6] > FLAGS || take_text(input, &step->text) != DONE ||
        take_text(input, &step->after) != DONE)
        return BAD;
    put_word(step->text, &step->word, &step->mask);
    if (is_in_line(step->after) && *step->after.at != '-')
        put_word(step->after, &step->after_word, &step->after_mask);
    step->before_port = step->after.size && *step->after.at == ':';
    step->may_lack = (bytes[6] & FLAG_MAY_LACK) != 0;
    step->own = step->cell ? read_cell : reader_of(step->kind, step->quoted);
    step->read = step->may_lack && !step->cell ? read_or_nothing : step->own;
    if (op == FIELD)
        put_ends(step);
    step->code = op == LITERAL ? DO_LITERAL : op == PART ? DO_PART : op == END ? DO_END : code_of(step);
    return DONE;
}

/* Let a field look for the literal behind it, so that this is no step of its own. */
static void put_then(Step *step, Step *next)
{
    step->next = next;
    if (step->code > DO_LOOSE && next->code == DO_LITERAL && is_in_line(next->text)) {
        step->then_size = (uint8_t)next->text.size;
        step->then = next->word;
        step->then_mask = next->mask;
        step->next = next + 1;
    }
}

static int put_steps(Program *program, Input *input)
{
    Notation *notation = program->notations;
    TimeItem *item = program->items;
    Remembered *newest = program->newest;
    int loose = 0;
    for (size_t i = 0; i < program->step_count; i++) {
        Step *step = &program->steps[i];
        if (put_step(step, take_bytes(input, STEP_BYTES), input) != DONE)
            return BAD;
        if (step->code >= DO_LOOSE && step->kind == KIND_TIME) {
            newest->looked_at = SIZE_MAX;
            step->newest = newest++;
        }
        step->notations = notation;
        for (size_t n = 0; n < step->notation_count; n++, notation++) {
            Text pattern;
            take_text(input, &pattern);
            put_notation(notation, pattern, item);
            item += notation->count;
        }
        int is_last = i + 1 == program->step_count;
        loose += step->code == DO_LOOSE;
        if ((step->code == DO_END) != is_last || loose > 1 ||
            (step->code == DO_PART && (step->skip <= i || step->skip >= program->step_count)))
            return BAD;
        if (i > 0)
            put_then(step - 1, step);
    }
    return DONE;
}

/* Count of each slot the fields that fill it; BAD if one is none of the slots, or a time's and no time. */
static int count_fields(const Program *program, const uint8_t *slots, size_t count, int *fields)
{
    for (size_t i = 0; i < program->step_count; i++) {
        const Step *step = &program->steps[i];
        if (step->kept < 0)
            continue;
        if ((size_t)step->kept >= count)
            return BAD;
        int is_time = (int16_t)u16(slots + 2 * step->kept) == TIME_OUTPUT, is_field = step->code >= DO_LOOSE;
        if (is_field && is_time && step->kind != KIND_TIME)
            return BAD;
        fields[step->kept] += is_field;
    }
    return DONE;
}

/* Whether each output is wanted once, if at all. `given` has room for one of each output and of the time, and is 0. */
static int are_outputs(const uint8_t *slots, size_t count, ptrdiff_t outputs, uint8_t *given)
{
    for (size_t slot = 0; slot < count; slot++) {
        int16_t output = (int16_t)u16(slots + 2 * slot);
        if (output < TIME_OUTPUT || output >= outputs || (output != NO_OUTPUT && given[output - TIME_OUTPUT]++))
            return 0;
    }
    return 1;
}

/* Number what is kept until the line fits. Of each slot `fields` become the number, or -1. */
static void number_kept(Program *program, const uint8_t *slots, size_t count, int *fields)
{
    int is_loose = 0;
    for (size_t i = 0; i < program->step_count; i++) {
        const Step *step = &program->steps[i];
        is_loose |= step->code == DO_LOOSE;
        if (step->code >= DO_LOOSE && step->kept >= 0 && is_loose)
            fields[step->kept] += (int16_t)u16(slots + 2 * step->kept) != NO_OUTPUT;
    }
    for (size_t slot = 0; slot < count; slot++) {
        int is_kept = fields[slot] > 1;
        if (is_kept)
            program->outputs[program->kept] = (int16_t)u16(slots + 2 * slot);
        fields[slot] = is_kept ? (int)program->kept++ : -1;
    }
}

/* Say where each value goes. */
static void put_outputs(Program *program, const uint8_t *slots, ptrdiff_t outputs, const int *numbers)
{
    ptrdiff_t always = 0;
    size_t part_end = 0;
    for (size_t i = 0; i < program->step_count; i++) {
        Step *step = &program->steps[i];
        if (step->code == DO_PART && step->skip > part_end)
            part_end = step->skip;
        if (step->code < DO_LOOSE || step->kept < 0)
            continue;
        int output = (int16_t)u16(slots + 2 * step->kept);
        step->kept = numbers[step->kept];
        step->output = step->kept < 0 ? output : NO_OUTPUT;
        step->is_kept = step->kept >= 0 || step->output != NO_OUTPUT;
        always += step->output != NO_OUTPUT && i >= part_end;
    }
    program->may_lack = always < outputs + 1;
}

/* Read steps and slots; there is room for them. */
static int put_program(Program *program, const uint8_t *slots, size_t count, ptrdiff_t outputs, Input *input)
{
    int *fields = calloc(count + 1, sizeof *fields), put = NO_MEMORY;
    uint8_t *given = calloc((size_t)outputs + 2, 1);
    if (fields != NULL && given != NULL) {
        put = put_steps(program, input);
        if (put == DONE)
            put = count_fields(program, slots, count, fields);
        if (put == DONE && !are_outputs(slots, count, outputs, given))
            put = BAD;
        if (put == DONE) {
            number_kept(program, slots, count, fields);
            put_outputs(program, slots, outputs, fields);
        }
    }
    free(fields);
    free(given);
    return put;
}

int open_program(Program *program, const uint8_t *bytes, size_t size, ptrdiff_t outputs)
{
    *program = (Program){0};
    if (size < HEADER_BYTES)
        return BAD;
    /* A copy: the texts of steps are in it, whatever becomes of the caller's. */
    uint8_t *copy = program->bytes = malloc(size);
    if (copy == NULL)
        return NO_MEMORY;
    memcpy(copy, bytes, size);
    Input input = {copy + HEADER_BYTES, copy + size};
    size_t count = u16(copy + 2), times, notations, items;
    program->step_count = u16(copy);
    program->is_open = copy[4];
    const uint8_t *slots = take_bytes(&input, 2 * count);
    if (slots == NULL || program->step_count == 0 ||
        count_all(input, program->step_count, &times, &notations, &items) != DONE)
        return BAD;
    program->steps = calloc(program->step_count, sizeof *program->steps);
    program->notations = calloc(notations + 1, sizeof *program->notations);
    program->items = calloc(items + 1, sizeof *program->items);
    program->newest = calloc(times + 1, sizeof *program->newest);
    program->outputs = calloc(count + 1, sizeof *program->outputs);
    program->found = calloc(count + 1, sizeof *program->found);
    program->before = calloc(count + 1, sizeof *program->before);
    if (program->steps == NULL || program->notations == NULL || program->items == NULL || program->newest == NULL ||
        program->outputs == NULL || program->found == NULL || program->before == NULL)
        return NO_MEMORY;
    return put_program(program, slots, count, outputs, &input);
}

void close_program(Program *program)
{
    free(program->bytes);
    free(program->steps);
    free(program->notations);
    free(program->items);
    free(program->newest);
    free(program->outputs);
    free(program->found);
    free(program->before);
}
