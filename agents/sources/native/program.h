/* Programs as kernels run them: decoded, checked, and with tables of what ends a value
 * (elf.agents.sources.layouts.program). */
#ifndef LINES_PROGRAM_H
#define LINES_PROGRAM_H

#include "lines.h"
#include "vectors.h"

enum Op { LITERAL = 1, FIELD, PART, END, OPS };

/* As in elf.agents.sources.layouts.kinds. */
enum Kind {
    KIND_WORD = 1,
    KIND_QUOTED,
    KIND_QTEXT,
    KIND_QREQUEST,
    KIND_LOOSE,
    KIND_BRACED,
    KIND_IP,
    KIND_ADDR,
    KIND_HOST,
    KIND_ADDRESSES,
    KIND_UPSTREAMS,
    KIND_STATUSES,
    KIND_NUMBERS,
    KIND_IDENT,
    KIND_USER,
    KIND_REQUEST,
    KIND_METHOD,
    KIND_PROTOCOL,
    KIND_URI,
    KIND_QUERY,
    KIND_STATUS,
    KIND_INT,
    KIND_BYTES,
    KIND_NUMBER,
    KIND_DURATION,
    KIND_HEX,
    KIND_STREAM,
    KIND_PART,
    KIND_TIME,
    KIND_REST,
    KIND_TEXT,
    KINDS
};

#define NO_OUTPUT -1
#define TIME_OUTPUT -2

typedef struct {
    const uint8_t *at;
    size_t size;
} Text;

/* A value of a line. */
typedef struct {
    const uint8_t *begin, *end; /* NULL: null */
    int64_t ms;                 /* of a time */
} Value;

typedef struct {
    const uint8_t *begin, *end;
    int has_ident;          /* so that a user's name is one word */
    const uint8_t *stopped; /* where it stops to fit */
} Line;

/* What times are made of. */
enum { YEAR, SHORT_YEAR, MONTH, DAY, DAY_OF_YEAR, HOUR, HALF_HOUR, MINUTE, SECOND, TIME_NUMBERS };

/* A literal of a notation, or one of its codes. */
typedef struct {
    uint8_t code;           /* 0: a literal */
    uint8_t digits, number; /* of a code that is a number: how many it has, and which it is */
    int16_t least, most;
    Text text;
} TimeItem;

typedef struct {
    TimeItem *items;
    size_t count;
    size_t ahead;  /* bytes behind a time of it, up to which it may depend on them */
    size_t beyond; /* bytes behind where it turned out to be no time of it, up to which that may depend on them */
} Notation;

/* The newest time that was read: a line that has the same bytes, up to the last that was looked at, has the same. A
 * part of a second may be another one. */
#define REMEMBERED_VECTORS 4
typedef struct {
    size_t looked_at; /* more than any line has: none */
    size_t size;
    int64_t ms;      /* without the part of a second, if it may be another one */
    int part_digits; /* 0: it may not */
    size_t part_at;
    int vectors;
    Hits same[REMEMBERED_VECTORS], part[REMEMBERED_VECTORS]; /* which bytes are the same; which are a part's digits */
    uint8_t text[REMEMBERED_VECTORS * VECTOR_BYTES];
} Remembered;

typedef struct Step Step;
/* Where the line goes on, or NULL: there is no value of its kind, and the line says where it stops. */
typedef const uint8_t *(*Reader)(Step *step, Line *line, const uint8_t *at, Value *value);

/* What a step does; of fields, of which kinds the most frequent values are read without calling the reader. */
enum Code {
    DO_LITERAL,
    DO_PART,
    DO_END,
    DO_LOOSE,
    DO_READ,
    DO_QUOTED,
    DO_REQUEST,
    DO_WORD,
    DO_PEER,
    DO_HOST,
    DO_IDENT,
    DO_USER,
    DO_STATUS,
    DO_DIGITS,
    DO_NUMBER,
    DO_LIST,
    DO_TIME
};

#define MARKS 2

struct Step {
    Reader read;
    Reader own;            /* the same, but of what may be nothing */
    uint8_t code, kind;
    uint8_t quoted, pads;
    uint8_t cell;           /* it is one of CSV */
    uint8_t may_lack;       /* nothing in its place is null */
    uint8_t before_port;   /* a colon comes after what may hold colons */
    uint8_t marks;         /* how many bytes end it; more than MARKS: see `ends` */
    uint8_t ends_at_quote; /* a quote does, and nothing else */
    uint8_t ends_in_names; /* one does that names and numbers may have */
    uint8_t is_kept;       /* its value goes somewhere */
    uint8_t then_size;     /* of the literal that comes next, if it is one of up to eight bytes; else 0 */
    int output;            /* where the value goes as soon as it is read */
    int kept;              /* which of the values that are kept; -1: none */
    Step *next;            /* behind a field and that literal */
    /* The first bytes of texts, and which of eight they are. */
    uint64_t word, mask;
    uint64_t then, then_mask;
    uint64_t after_word, after_mask;
    const uint8_t *stops; /* a bitmap of 256 bits */
    size_t skip;
    Text text, after;
    Notation *notations;
    size_t notation_count;
    Remembered *newest;                /* of a time */
    uint8_t mark[MARKS][VECTOR_BYTES]; /* each as often as a vector has bytes */
    uint8_t ends[256];                 /* which bytes end a value that knows nothing of itself */
};

typedef struct {
    uint8_t *bytes; /* what the texts are in */
    Step *steps;
    size_t step_count;
    Notation *notations;
    TimeItem *items;
    Remembered *newest;
    int is_open;
    int may_lack; /* a line may have no value for some output */
    /* Values that are kept until the line fits: those of which there are several that have to be the same, and those
     * behind a text that may end at several quotes. */
    size_t kept;
    int *outputs; /* of each of them */
    Value *found, *before;
} Program;

/* DONE, BAD or NO_MEMORY; in any case there is something to close. Outputs are below `outputs`. */
int open_program(Program *program, const uint8_t *bytes, size_t size, ptrdiff_t outputs);
void close_program(Program *program);

static inline int is_stop(const Step *step, uint8_t byte)
{
    return step->stops[byte / 8] >> byte % 8 & 1;
}

/* Whether a value may end here, which nothing but the line's end or a stop ends. */
static inline int ends_here(const Step *step, const Line *line, const uint8_t *at)
{
    return at == line->end || is_stop(step, *at);
}

static inline const uint8_t *misfit(Line *line, const uint8_t *at)
{
    line->stopped = at;
    return NULL;
}

/* A text that is null if it is "-". */
static inline void put_text(Value *value, const uint8_t *begin, const uint8_t *end)
{
    value->begin = end - begin == 1 && *begin == '-' ? NULL : begin;
    value->end = end;
}

/* enclosed.c: what reads values of a kind that steps do not read themselves. */
Reader reader_of(int kind, int quoted);
/* runs.c: of the kinds that end at what may follow. */
Reader run_reader(int kind, int quoted);
/* Whether a text that is not nothing is of a kind, and whether that has brackets that are no part of the value. */
int is_of_kind(int kind, const uint8_t *at, const uint8_t *end);
int has_brackets(int kind);
/* cells.c, lists.c, users.c, times.c. */
const uint8_t *read_cell(Step *step, Line *line, const uint8_t *at, Value *value);
const uint8_t *read_list(Step *step, Line *line, const uint8_t *at, Value *value);
const uint8_t *read_user(Step *step, Line *line, const uint8_t *at, Value *value);
const uint8_t *read_time(Step *step, Line *line, const uint8_t *at, Value *value);

/* times.c: DONE or BAD; how many items a pattern has, and what they are. */
int count_items(Text pattern, size_t *count);
void put_notation(Notation *notation, Text pattern, TimeItem *items);

#endif
