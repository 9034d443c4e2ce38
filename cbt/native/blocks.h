/* Blocks to blocks: readers, a writer, and the merge between them (elf.cbt.fusing). */
#ifndef CBT_BLOCKS_H
#define CBT_BLOCKS_H

#include "native.h"

/* What rows of a tree are made of: words of the key, then states. */
enum { SUM_INTEGER, MIN_INTEGER, MAX_INTEGER, MIN_DOUBLE, MAX_DOUBLE, MIN_FLAG, MAX_FLAG, KINDS };
typedef struct {
    ptrdiff_t lengths_at, text_at, width; /* of the words: the first length, the first of text, all */
    ptrdiff_t states;
    const uint8_t *kinds; /* of each state */
} Shape;
#define SHAPE_COLUMNS_MAX 96

/* reader.c: a packed block (elf.cbt.blocks), some rows at a time. */
#define READ_ROWS 128
typedef struct {
    const Shape *shape;
    ptrdiff_t left, count, at; /* rows not decoded yet, rows decoded, the next of them */
    ptrdiff_t rows;
    BitReader *bits;                       /* [columns] */
    ptrdiff_t reached[SHAPE_COLUMNS_MAX];  /* rows that reach a word of text; -1: all are packed */
    uint64_t *order;                       /* [READ_ROWS] */
    uint64_t *columns;                     /* [columns][READ_ROWS] */
} BlockReader;
/* 0, or -1: these are not the bytes of such a block. `reader` has its arrays already. */
int open_block(BlockReader *reader, const uint8_t *data, ptrdiff_t bytes);
/* Decode more rows; 0 where there are none. */
ptrdiff_t read_rows(BlockReader *reader);

/* writer.c: sorted rows to packed blocks, each within bounds; rows of one key are merged. */
typedef struct {
    ptrdiff_t part, rows, bytes; /* how many bounds are not above it */
    uint64_t low;
    uint8_t *data; /* of its own */
} Piece;
typedef struct {
    const Shape *shape;
    const uint64_t *bounds;
    ptrdiff_t bound_count, part;
    ptrdiff_t most, count, group; /* rows of a block, rows waiting, first of those of the last order */
    uint64_t *order;   /* [most + SAME_ORDER_MAX] */
    uint64_t *columns; /* [columns + 1][most + SAME_ORDER_MAX]: the last one is for the writer */
    uint8_t *out; /* of one block */
    ptrdiff_t bytes, room;
    Piece *pieces;
    ptrdiff_t piece_count, piece_room;
} BlockWriter;
/* Keys of one order, at most: whoever has more should sort them. */
#define SAME_ORDER_MAX 16
/* Why writing ends. */
enum { DONE = 0, NO_MEMORY = -1, BAD_BLOCK = -2, TOO_ALIKE = -3, SUM_TOO_LARGE = -4 };
/* Take a row whose values lie `stride` apart. */
int write_row(BlockWriter *writer, uint64_t order, const uint64_t *values, ptrdiff_t stride);
int finish_block(BlockWriter *writer);

/* merge.c */
int merge_blocks(BlockWriter *writer, const Buffer *blocks, ptrdiff_t count);
/* Rows in any order; `packed` are their orders, sorted, with their numbers; `columns` are those of the shape. */
int write_ranked(BlockWriter *writer, const Column *columns, const uint64_t *packed, ptrdiff_t rows);

#endif
