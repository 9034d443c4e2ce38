/* Objects read a line at a time, every byte of it checked; elf.agents.sources.objects.line defines it. */
#include <stdlib.h>

#include "objects.h"

#define PREFETCH_BYTES 512
/* So many members may be missing from one object to the next, and names are still compared with the right ones. */
#define MISSING_MAX 3

/* A line that is being read. Behind it stands a control byte, which ends whatever is read there. */
typedef struct {
    const uint8_t *begin, *end;
    const uint8_t *stopped;
    enum Why why;
    Slot *slots;
    Copied *scratch;
    int no_memory;
} Reading;

static const uint8_t *read_value(Reading *reading, const uint8_t *at, const Node *node, int depth);

static const uint8_t *stop(Reading *reading, const uint8_t *at, enum Why why)
{
    reading->stopped = at;
    reading->why = at >= reading->end ? WHY_END : why;
    return NULL;
}

static inline const uint8_t *skip_spaces(const uint8_t *at)
{
    while (*at == ' ' || *at == '\t' || *at == '\r')
        at++;
    return at;
}

/* Read an escape behind its backslash. */
static const uint8_t *skip_escape(Reading *reading, const uint8_t *at)
{
    if (*at == 'u') {
        for (int i = 1; i <= 4; i++)
            if (!is(HEX, at[i]))
                return stop(reading, at + i, WHY_ESCAPE);
        return at + 5;
    }
    return *at && strchr("\"\\/bfnrt", *at) != NULL ? at + 1 : stop(reading, at, WHY_ESCAPE);
}

#define ENDS_IN(text) either(either(equal(text, quote), equal(text, escape)), at_most(text, control))

/* Read a text behind its quote; returns its other quote. */
static inline const uint8_t *text_end(Reading *reading, const uint8_t *at, int *has_escapes)
{
    Vector quote = every('"'), escape = every('\\'), control = every(31);
    for (;;) {
        /* Most texts are short, and most others long. */
        Hits found = hits(ENDS_IN(load(at)));
        if (found) {
            at += first_hit(found);
        } else {
            size_t next;
            at += VECTOR_BYTES;
            do {
                next = first_of_four(ENDS_IN(load(at)), ENDS_IN(load(at + VECTOR_BYTES)),
                                     ENDS_IN(load(at + 2 * VECTOR_BYTES)), ENDS_IN(load(at + 3 * VECTOR_BYTES)));
                at += next;
            } while (next == 4 * VECTOR_BYTES);
        }
        if (*at == '"')
            return at;
        if (*at != '\\')
            return stop(reading, at, WHY_TEXT);
        *has_escapes = 1;
        at = skip_escape(reading, at + 1);
        if (at == NULL)
            return NULL;
    }
}

static inline const uint8_t *skip_digits(Reading *reading, const uint8_t *at)
{
    if (!is(DIGIT, *at))
        return stop(reading, at, WHY_NUMBER);
    do
        at++;
    while (is(DIGIT, *at));
    return at;
}

static inline const uint8_t *skip_number(Reading *reading, const uint8_t *at)
{
    at += *at == '-';
    at = *at == '0' ? at + 1 : skip_digits(reading, at);
    if (at != NULL && *at == '.')
        at = skip_digits(reading, at + 1);
    if (at != NULL && (*at == 'e' || *at == 'E')) {
        at++;
        at = skip_digits(reading, at + (*at == '+' || *at == '-'));
    }
    return at;
}

/* Read what has no values in it. */
static inline const uint8_t *skip_scalar(Reading *reading, const uint8_t *at, int *has_escapes)
{
    switch (*at) {
    case '"':
        at = text_end(reading, at + 1, has_escapes);
        return at == NULL ? NULL : at + 1;
    case 't': return memcmp(at, "true", 4) == 0 ? at + 4 : stop(reading, at, WHY_VALUE);
    case 'f': return memcmp(at, "false", 5) == 0 ? at + 5 : stop(reading, at, WHY_VALUE);
    case 'n': return memcmp(at, "null", 4) == 0 ? at + 4 : stop(reading, at, WHY_VALUE);
    default:
        return *at == '-' || is(DIGIT, *at) ? skip_number(reading, at) : stop(reading, at, WHY_VALUE);
    }
}

/* What is in an object that has this name; NULL: nothing that is wanted. */
static Node *member_of(Reading *reading, const Node *node, const uint8_t *name, const uint8_t *end, int has_escapes)
{
    size_t size = (size_t)(end - name);
    if (has_escapes) {
        /* It is no longer than it was written. */
        const uint8_t *copy = copied(reading->scratch, name, size);
        if (copy == NULL) {
            reading->no_memory = 1;
            return NULL;
        }
        size = (size_t)unescaped(name, end, reading->scratch->bytes);
        name = copy;
    }
    for (size_t i = 0; i < node->member_count; i++)
        if (node->members[i].size == size && memcmp(node->members[i].name, name, size) == 0)
            return node->members[i].node;
    return NULL;
}

/* Remember what stands before a member's value, from the brace or comma on. */
static void remember(Seen *seen, const uint8_t *from, const uint8_t *value, Node *node)
{
    size_t size = (size_t)(value - from);
    uint8_t same[SEEN_BYTES] = {0};
    seen->size = size;
    seen->node = node;
    if (size > SEEN_BYTES)
        return;
    memcpy(seen->text, from, size);
    memset(same, 0xFF, size);
    for (int i = 0; i < SEEN_BYTES / VECTOR_BYTES; i++)
        seen->same[i] = hits(load(same + i * VECTOR_BYTES));
}

static inline int is_seen(const Seen *seen, const uint8_t *from)
{
    if (seen->size > SEEN_BYTES || (~hits(equal(load(from), load(seen->text))) & seen->same[0]))
        return 0;
    return seen->size <= VECTOR_BYTES ||
           !(~hits(equal(load(from + VECTOR_BYTES), load(seen->text + VECTOR_BYTES))) & seen->same[1]);
}

/* Read a member's name, from the brace or comma on; returns where its value begins. */
static const uint8_t *read_name(Reading *reading, const uint8_t *from, const Node *node, Node **found)
{
    int has_escapes = 0;
    const uint8_t *name = skip_spaces(from + 1);
    if (*name != '"')
        return stop(reading, name, WHY_NAME);
    const uint8_t *end = text_end(reading, name + 1, &has_escapes);
    if (end == NULL)
        return NULL;
    const uint8_t *at = skip_spaces(end + 1);
    if (*at != ':')
        return stop(reading, at, WHY_COLON);
    *found = node == NULL ? NULL : member_of(reading, node, name + 1, end, has_escapes);
    return skip_spaces(at + 1);
}

/* As `read_name`, but first compare with what stood there in the object before. */
static inline const uint8_t *next_name(Reading *reading, const uint8_t *from, const Node *node, size_t *place,
                                       Node **found)
{
    size_t last = *place + MISSING_MAX < SEEN_MAX ? *place + MISSING_MAX : SEEN_MAX;
    for (size_t i = *place; i < last; i++) {
        const Seen *seen = &node->seen[i];
        if (is_seen(seen, from)) {
            *place = i + 1;
            *found = seen->node;
            return skip_spaces(from + seen->size);
        }
    }
    const uint8_t *at = read_name(reading, from, node, found);
    if (at != NULL && *place < SEEN_MAX)
        remember(&node->seen[(*place)++], from, at, *found);
    return at;
}

/* Read an object from its brace on; of one without a node nothing is wanted. */
static const uint8_t *read_object(Reading *reading, const uint8_t *at, const Node *node, int depth)
{
    size_t place = 0;
    const uint8_t *empty = skip_spaces(at + 1);
    if (*empty == '}')
        return empty + 1;
    for (;;) {
        Node *member = NULL;
        at = node == NULL ? read_name(reading, at, NULL, &member) : next_name(reading, at, node, &place, &member);
        if (at == NULL)
            return NULL;
        if (member == NULL && *at == '"') {
            int has_escapes;
            at = text_end(reading, at + 1, &has_escapes);
            at += at != NULL;
        } else {
            at = read_value(reading, at, member, depth);
        }
        if (at == NULL)
            return NULL;
        at = skip_spaces(at);
        if (*at == '}')
            return at + 1;
        if (*at != ',')
            return stop(reading, at, WHY_COMMA);
    }
}

static const uint8_t *read_array(Reading *reading, const uint8_t *at, const Node *node, int depth)
{
    uint32_t index = 0;
    at = skip_spaces(at + 1);
    if (*at == ']')
        return at + 1;
    for (;; index++) {
        const Node *item = NULL;
        for (size_t i = 0; node != NULL && i < node->item_count; i++)
            if (node->items[i].index == index)
                item = node->items[i].node;
        at = read_value(reading, at, item, depth);
        if (at == NULL)
            return NULL;
        at = skip_spaces(at);
        if (*at == ']')
            return at + 1;
        if (*at != ',')
            return stop(reading, at, WHY_COMMA);
        at = skip_spaces(at + 1);
    }
}

static const uint8_t *read_container(Reading *reading, const uint8_t *at, const Node *node, int depth)
{
    if (depth == DEPTH_MAX)
        return stop(reading, at, WHY_DEPTH);
    if (*at == '{')
        return read_object(reading, at, node != NULL && node->member_count ? node : NULL, depth + 1);
    return read_array(reading, at, node, depth + 1);
}

static const uint8_t *read_value(Reading *reading, const uint8_t *at, const Node *node, int depth)
{
    int has_escapes = 0;
    const uint8_t *begin = at;
    /* An object that comes twice counts as the last time: what was found in the first is not there. */
    for (int slot = node == NULL ? 0 : node->first; node != NULL && slot < node->end; slot++)
        reading->slots[slot].begin = NULL;
    if (*at == '{' || *at == '[')
        at = read_container(reading, at, node, depth);
    else
        at = skip_scalar(reading, at, &has_escapes);
    if (at != NULL && node != NULL && node->slot >= 0)
        reading->slots[node->slot] = (Slot){begin, at, has_escapes};
    return at;
}

/* Whether the line is an object, and nothing else. */
static int read_line(Reading *reading, const Node *root)
{
    const uint8_t *at = skip_spaces(reading->begin);
    if (*at != '{' || at >= reading->end) {
        stop(reading, at, WHY_OBJECT);
        return 0;
    }
    at = read_object(reading, at, root, 0);
    if (at == NULL)
        return 0;
    at = skip_spaces(at);
    if (at == reading->end)
        return 1;
    stop(reading, at, WHY_MORE);
    return 0;
}

static int is_blank(const Slot *slot)
{
    return same(slot->begin, slot->end, "\"\"") || same(slot->begin, slot->end, "\"-\"");
}

static void put_outputs(const ObjectProgram *program, uintptr_t origin, ptrdiff_t row, int32_t *const *spans,
                        uint8_t *escaped)
{
    for (size_t i = 0; i < program->output_count; i++) {
        const Output *output = &program->outputs[i];
        const Slot *slot = &program->slots[output->first];
        if (slot->begin == NULL && output->second >= 0)
            slot = &program->slots[output->second];
        if (slot->begin == NULL || *slot->begin == 'n' || (program->skips_blanks && is_blank(slot))) {
            put_place(spans[i], row, -1, -1);
            continue;
        }
        put_place(spans[i], row, (int32_t)((uintptr_t)slot->begin - origin), (int32_t)((uintptr_t)slot->end - origin));
        escaped[i] |= (uint8_t)slot->has_escapes;
    }
}

static int read_lines(ObjectProgram *program, const Block *block, int64_t begin, const int64_t *ends,
                      ptrdiff_t lines, int32_t *const *spans, uint8_t *escaped, int32_t *misfits, ptrdiff_t *fitting, ptrdiff_t *unfit,
                      Copied *copy, Copied *scratch)
{
    const uint8_t *limit = block->bytes + block->size;
    if (begin < 0)
        return BAD;
    for (ptrdiff_t i = 0; i < lines; i++) {
        /* Read once: the caller's arrays may lie where another one does. */
        int64_t end = ends[i];
        if (end < begin || end >= block->size || block->bytes[end] != '\n')
            return BAD;
        __builtin_prefetch(block->bytes + end + PREFETCH_BYTES);
        Reading reading = {.slots = program->slots, .scratch = scratch};
        reading.begin = readable(copy, block->bytes + begin, (size_t)(end - begin), limit);
        if (reading.begin == NULL)
            return NO_MEMORY;
        reading.end = reading.begin + (end - begin);
        for (size_t slot = 0; slot < program->slot_count; slot++)
            program->slots[slot].begin = NULL;
        int fits = read_line(&reading, program->nodes);
        if (reading.no_memory)
            return NO_MEMORY;
        if (fits) {
            put_outputs(program, (uintptr_t)reading.begin - (uintptr_t)begin, (*fitting)++, spans, escaped);
        } else {
            int32_t numbers[UNFIT_NUMBERS] = {(int32_t)i, reading.why, (int32_t)(reading.stopped - reading.begin)};
            memcpy(misfits + UNFIT_NUMBERS * (*unfit)++, numbers, sizeof numbers);
        }
        begin = end + 1;
    }
    return DONE;
}

int read_objects(ObjectProgram *program, const Block *block, int64_t begin, const int64_t *ends, ptrdiff_t lines,
                 int32_t *const *spans, uint8_t *escaped, int32_t *misfits, ptrdiff_t *fitting, ptrdiff_t *unfit)
{
    Copied copy = {0}, scratch = {0};
    *fitting = *unfit = 0;
    memset(escaped, 0, program->output_count);
    int done = read_lines(program, block, begin, ends, lines, spans, escaped, misfits, fitting, unfit, &copy, &scratch);
    free(copy.bytes);
    free(scratch.bytes);
    return done;
}
