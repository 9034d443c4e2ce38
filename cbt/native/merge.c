/* Many sorted blocks, or rows in any order, into few blocks: what a full buffer of the tree comes down to. */
#include <stdlib.h>

#include "blocks.h"

/* Of some readers with rows, the one whose next row comes first is on top. */
static int comes_first(const BlockReader *left, const BlockReader *right)
{
    return left->order[left->at] < right->order[right->at];
}

static void sift_down(BlockReader **heap, ptrdiff_t count, ptrdiff_t at)
{
    BlockReader *moved = heap[at];
    for (ptrdiff_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && comes_first(heap[child + 1], heap[child]))
            child++;
        if (!comes_first(heap[child], moved))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static int merge_readers(BlockWriter *writer, BlockReader **heap, ptrdiff_t count)
{
    for (ptrdiff_t at = count / 2; at-- > 0;)
        sift_down(heap, count, at);
    while (count > 0) {
        BlockReader *first = heap[0];
        int failed = write_row(writer, first->order[first->at], first->columns + first->at, READ_ROWS);
        if (failed)
            return failed;
        if (++first->at == first->count && read_rows(first) == 0)
            heap[0] = heap[--count];
        if (count > 0)
            sift_down(heap, count, 0);
    }
    return finish_block(writer);
}

int merge_blocks(BlockWriter *writer, const Buffer *blocks, ptrdiff_t count)
{
    const Shape *shape = writer->shape;
    ptrdiff_t columns = shape->width + shape->states, filled = 0;
    int ended = NO_MEMORY;
    BlockReader *readers = calloc((size_t)count, sizeof *readers), **heap = calloc((size_t)count, sizeof *heap);
    BitReader *bits = calloc((size_t)(count * columns), sizeof *bits);
    uint64_t *rows = malloc((size_t)(count * (columns + 1) * READ_ROWS) * sizeof *rows);
    if (readers == NULL || heap == NULL || bits == NULL || rows == NULL)
        goto over;
    ended = BAD_BLOCK;
    for (ptrdiff_t b = 0; b < count; b++) {
        BlockReader *reader = &readers[b];
        reader->shape = shape;
        reader->bits = bits + b * columns;
        reader->order = rows + b * (columns + 1) * READ_ROWS;
        reader->columns = reader->order + READ_ROWS;
        if (open_block(reader, blocks[b].bytes, blocks[b].size) < 0)
            goto over;
        if (read_rows(reader) > 0)
            heap[filled++] = reader;
    }
    ended = merge_readers(writer, heap, filled);
over:
    free(readers);
    free(heap);
    free(bits);
    free(rows);
    return ended;
}

int write_ranked(BlockWriter *writer, const Column *columns, const uint64_t *packed, ptrdiff_t rows)
{
    ptrdiff_t width = writer->shape->width + writer->shape->states;
    uint64_t values[SHAPE_COLUMNS_MAX];
    for (ptrdiff_t i = 0; i < rows; i++) {
        ptrdiff_t row = (ptrdiff_t)(packed[i] & NUMBER_MASK);
        if (row >= rows)
            return BAD_BLOCK;
        for (ptrdiff_t c = 0; c < width; c++)
            values[c] = value_at(&columns[c], row);
        int ended = write_row(writer, packed[i] & ~NUMBER_MASK, values, 1);
        if (ended != DONE)
            return ended;
    }
    return finish_block(writer);
}
