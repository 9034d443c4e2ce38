/* Objects of JSON, one a line, and programs that say which of their values are wanted
 * (elf.agents.sources.objects.program). */
#ifndef LINES_OBJECTS_H
#define LINES_OBJECTS_H

#include "lines.h"
#include "vectors.h"

/* Objects and arrays in a line's object may be nested so deeply. */
#define DEPTH_MAX 200
/* Numbers of a line that is no object: the line, why, the byte of the line. */
#define UNFIT_NUMBERS 3
/* Members of an object whose names are remembered, and bytes of each with what stands around it. */
#define SEEN_MAX 64
#define SEEN_BYTES 32

/* Why a line is no object, as in elf.agents.sources.objects.line. */
enum Why {
    WHY_END = 1,
    WHY_OBJECT,
    WHY_NAME,
    WHY_COLON,
    WHY_VALUE,
    WHY_NUMBER,
    WHY_TEXT,
    WHY_ESCAPE,
    WHY_COMMA,
    WHY_DEPTH,
    WHY_MORE
};

typedef struct Node Node;

/* A member of objects that is wanted, or in which something is. */
typedef struct {
    const uint8_t *name;
    size_t size;
    Node *node;
} Member;

/* An item of arrays of that sort. */
typedef struct {
    uint32_t index;
    Node *node;
} Item;

/* A member as it was written at its place in the object before: from the brace or comma before its name up to its
 * value. */
typedef struct {
    uint8_t text[SEEN_BYTES];
    Hits same[SEEN_BYTES / VECTOR_BYTES];
    size_t size; /* more than SEEN_BYTES: none */
    Node *node;  /* NULL: it is not wanted */
} Seen;

struct Node {
    int slot;       /* where its value goes; -1: nowhere */
    int first, end; /* slots of it and of all in it */
    Member *members;
    size_t member_count;
    Item *items;
    size_t item_count;
    Seen *seen;
};

/* A value of a line. */
typedef struct {
    const uint8_t *begin, *end; /* NULL: the line has none */
    int has_escapes;
} Slot;

typedef struct {
    int first, second; /* slots of which the first that has a value has the output's; the second -1: there is none */
} Output;

typedef struct {
    Node *nodes;
    Member *members;
    Item *items;
    Seen *seen;
    Slot *slots;
    Output *outputs;
    size_t node_count, slot_count, output_count;
    int skips_blanks; /* "" and "-" are no values */
} ObjectProgram;

/* Values lie a line apart: let the next ones come from memory meanwhile. Places need not be in the block: this reads
 * nothing. */
#define ROWS_AHEAD 12
static inline void fetch_ahead(const Block *block, const Spans *spans, ptrdiff_t row)
{
    if (row + ROWS_AHEAD < spans->rows)
        __builtin_prefetch((const void *)((uintptr_t)block->bytes + (uintptr_t)spans->places[2 * (row + ROWS_AHEAD)]));
}

/* object_program.c: DONE, BAD or NO_MEMORY; in any case there is something to close. The bytes have to stay. */
int open_object_program(ObjectProgram *program, const uint8_t *bytes, size_t size);
void close_object_program(ObjectProgram *program);

/* objects.c: DONE, BAD or NO_MEMORY; how many lines, the first of which begins there, are objects, and how many are none. `escaped` tells of each output
 * whether one of its values has escapes. */
int read_objects(ObjectProgram *program, const Block *block, int64_t begin, const int64_t *ends, ptrdiff_t lines,
                 int32_t *const *spans, uint8_t *escaped, int32_t *misfits, ptrdiff_t *fitting, ptrdiff_t *unfit);

/* escapes.c: how many bytes a text of JSON has, between its quotes; BAD: it is none. With `out`, writes them. */
ptrdiff_t unescaped(const uint8_t *at, const uint8_t *end, uint8_t *out);

/* codes.c: of each row which of the values it has, and where each of these is first; how many they are, BAD, NO_MEMORY,
 * or TOO_MANY. */
#define DISTINCT_MAX 1024
#define TOO_MANY -1
ptrdiff_t code_values(const Block *block, const Spans *spans, uint32_t *codes, int32_t *firsts, uint8_t *valid,
                      ptrdiff_t *nulls);

/* Rows of numbers that only Python rounds rightly. */
typedef struct {
    ptrdiff_t *rows;
    ptrdiff_t count, room;
} Hard;

/* object_values.c: how many values do not fit their type, which are null; BAD or NO_MEMORY. */
ptrdiff_t object_integers(const Block *block, const Spans *spans, int bits, int64_t *out, uint8_t *valid);
ptrdiff_t object_decimals(const Block *block, const Spans *spans, double *out, uint8_t *valid, Hard *hard);
ptrdiff_t object_booleans(const Block *block, const Spans *spans, uint8_t *out, uint8_t *valid);
/* The bytes of all texts, or BAD; `offsets` is where each begins, and the last one ends. */
ptrdiff_t measure_object_texts(const Block *block, const Spans *spans, int escaped, int64_t *offsets, uint8_t *valid,
                               ptrdiff_t *nulls);
int copy_object_texts(const Block *block, const Spans *spans, int escaped, uint8_t *out, ptrdiff_t size);

/* object_times.c: event times in ms; how many values are left to Python, which are NO_TIME; or BAD. */
ptrdiff_t object_times(const Block *block, const Spans *spans, int64_t *out);

#endif
