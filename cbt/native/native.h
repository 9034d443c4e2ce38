/* Kernels of the buffer tree: plain C over arrays that the caller owns. None of them calls Python or keeps anything;
 * module*.c check what they rely on. What each computes is defined by its NumPy counterpart, bit for bit. */
#ifndef CBT_NATIVE_H
#define CBT_NATIVE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "blocks are little-endian; elsewhere NumPy does the work"
#endif

/* Rows are ordered by the upper bits of the hash; the lower ones hold a row's number (elf.cbt.words). */
#define NUMBER_BITS 24
#define NUMBER_MASK (((uint64_t)1 << NUMBER_BITS) - 1)

/* A column of integers: one value for all rows, or an array of items of 1, 2, 4 or 8 bytes. */
typedef struct {
    const void *items; /* NULL: all rows are `same` */
    uint64_t same;
    ptrdiff_t item_bytes;
    ptrdiff_t rows;
} Column;

static inline uint64_t value_at(const Column *column, ptrdiff_t row)
{
    if (column->items == NULL)
        return column->same;
    switch (column->item_bytes) {
    case 8: return ((const uint64_t *)column->items)[row];
    case 4: return ((const uint32_t *)column->items)[row];
    case 2: return ((const uint16_t *)column->items)[row];
    default: return ((const uint8_t *)column->items)[row];
    }
}

/* bits.c: a column in as few bytes as its varying bits need (elf.cbt.bits).
 *
 * `sizes`, if not NULL, are bytes of text of each row, of which the column holds bytes 8 * word to 8 * word + 7; what is
 * behind a text is any value. Rows whose text does not reach the column are left out where these are many. */
typedef struct {
    Column values;
    const Column *sizes;
    uint64_t word;
    int relative; /* signed integers, which may be packed relative to the smallest */
} Packing;

/* How varying bits are moved together. */
typedef struct {
    int lowest, width;
} Run;

typedef struct {
    uint64_t mask;
    int bits, runs;
    int bytewise, low, width;
    Run run[33];
} Moves;

/* A packed column that is read bit by bit of it. */
typedef struct {
    uint64_t base, constant;
    Moves moves; /* mask 0: all values are the same */
    int pieces, widths[3];
    const uint8_t *piece[3];
} BitReader;

#define PACKED_HEADER_BYTES 24
ptrdiff_t packed_bytes_max(ptrdiff_t rows);
ptrdiff_t pack(const Packing *packing, uint8_t *out);
/* Returns the bytes of the column of `count` values that begins at `data`, or -1: there are fewer than that. */
ptrdiff_t open_bits(BitReader *reader, const uint8_t *data, ptrdiff_t bytes, ptrdiff_t count);
/* The caller asks for no more than there are. */
void next_bits(BitReader *reader, ptrdiff_t count, uint64_t *out);
/* The bits of text in a word of keys with so many bytes of it. */
void text_masks(const Column *sizes, ptrdiff_t at, ptrdiff_t count, uint64_t word, uint64_t *masks);
/* Whether all rows are packed of which so many reach a word. */
static inline int packs_all(ptrdiff_t reached, ptrdiff_t rows)
{
    return 8 * reached > 7 * rows;
}
/* Both return the bytes read, or -1: there are fewer than that. `count` values are written. */
ptrdiff_t unpack(const uint8_t *data, ptrdiff_t bytes, ptrdiff_t count, uint64_t *out);
ptrdiff_t unpack_text(const uint8_t *data, ptrdiff_t bytes, const Column *sizes, uint64_t word, uint64_t *out);

typedef struct {
    const uint8_t *bytes;
    ptrdiff_t size;
} Buffer;

static inline uint64_t mix64(uint64_t value)
{
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9;
    value = (value ^ value >> 27) * 0x94D049BB133111EB;
    return value ^ value >> 31;
}

/* rows.c: rows' places, sorted, and what is of one key brought together (elf.cbt.hashing, elf.cbt.rows). */
void hash_words(const Column *columns, ptrdiff_t width, ptrdiff_t rows, uint64_t *out);
void sort_packed(uint64_t *packed, uint64_t *scratch, ptrdiff_t rows);
/* The number of first rows of a key, written to `starts`; -1: keys of one order alternate; -2: no such row. */
ptrdiff_t first_rows(const Column *columns, ptrdiff_t width, const uint64_t *packed, ptrdiff_t rows, int64_t *starts);
/* Where the few keys are among many, each with as many columns; of one that is not there, -1 and less the row it comes
 * before. 0, or -1: keys collide in their order. */
int locate(const Column *many, const Column *few, ptrdiff_t width, const uint64_t *order, ptrdiff_t rows,
           const uint64_t *wanted, ptrdiff_t count, int64_t *places);
/* 0, or -2: no such row. `starts` NULL: all of the packed rows. */
int take_rows(const Column *column, const uint64_t *packed, ptrdiff_t rows, const int64_t *starts, ptrdiff_t count,
              uint64_t *out);
/* 0, or -1: a sum has left 64 bits on its way, -2: starts do not ascend within the rows. */
int sum_runs(const int64_t *values, ptrdiff_t rows, const int64_t *starts, ptrdiff_t count, int64_t *out);

/* text.c: strings as Arrow's views to words (elf.cbt.strings). */
/* `buffers` are columns of bytes. 0, or -2: a view points nowhere or is longer than `width` words. `rows` NULL: the first
 * `count` ones. Column after column is written. */
int words_of_views(const uint8_t *views, ptrdiff_t view_count, const Column *buffers, ptrdiff_t buffer_count,
                   const int64_t *rows, ptrdiff_t count, ptrdiff_t width, uint64_t *out);

#endif
