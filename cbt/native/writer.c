/* Sorted rows to packed blocks (elf.cbt.blocks), rows of one key merged. */
#include <stdlib.h>

#include "blocks.h"

static ptrdiff_t columns_of(const BlockWriter *writer)
{
    return writer->shape->width + writer->shape->states;
}

static ptrdiff_t capacity(const BlockWriter *writer)
{
    return writer->most + SAME_ORDER_MAX;
}

static uint64_t *column_of(const BlockWriter *writer, ptrdiff_t number)
{
    return writer->columns + number * capacity(writer);
}

static double as_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The state of merged rows; 0 or SUM_TOO_LARGE. As `elf.cbt.reducing`: NaN is above all numbers. */
static int merge_state(uint8_t kind, uint64_t *mine, uint64_t theirs)
{
    double left = as_double(*mine), right = as_double(theirs);
    int64_t sum;
    int take = 0;
    switch (kind) {
    case SUM_INTEGER:
        if (__builtin_add_overflow((int64_t)*mine, (int64_t)theirs, &sum))
            return SUM_TOO_LARGE;
        *mine = (uint64_t)sum;
        return 0;
    case MIN_INTEGER:
    case MIN_FLAG: take = (int64_t)theirs < (int64_t)*mine; break;
    case MAX_INTEGER:
    case MAX_FLAG: take = (int64_t)theirs > (int64_t)*mine; break;
    case MIN_DOUBLE: take = right < left || (left != left && right == right); break;
    default: take = right > left || (left == left && right != right);
    }
    if (take)
        *mine = theirs;
    return 0;
}

/* Room for so many more bytes. */
static int reserve(BlockWriter *writer, ptrdiff_t more)
{
    if (writer->bytes + more <= writer->room)
        return 0;
    ptrdiff_t room = (writer->bytes + more) * 3 / 2;
    uint8_t *grown = realloc(writer->out, (size_t)room);
    if (grown == NULL)
        return NO_MEMORY;
    writer->out = grown;
    writer->room = room;
    return 0;
}

static int add_piece(BlockWriter *writer, Piece piece)
{
    if (writer->piece_count == writer->piece_room) {
        ptrdiff_t room = 2 * writer->piece_room + 8;
        Piece *grown = realloc(writer->pieces, (size_t)room * sizeof *grown);
        if (grown == NULL) {
            free(piece.data);
            return NO_MEMORY;
        }
        writer->pieces = grown;
        writer->piece_room = room;
    }
    writer->pieces[writer->piece_count++] = piece;
    return 0;
}

static int pack_column(BlockWriter *writer, ptrdiff_t number, const Column *sizes, uint64_t word, int relative)
{
    if (reserve(writer, packed_bytes_max(writer->count)) < 0)
        return NO_MEMORY;
    Packing packing = {{column_of(writer, number), 0, 8, writer->count}, sizes, word, relative};
    writer->bytes += pack(&packing, writer->out + writer->bytes);
    return 0;
}

int finish_block(BlockWriter *writer)
{
    const Shape *shape = writer->shape;
    if (writer->count == 0)
        return 0;
    uint32_t header[2] = {(uint32_t)writer->count, (uint32_t)shape->width};
    writer->bytes = 0;
    if (reserve(writer, sizeof header) < 0)
        return NO_MEMORY;
    memcpy(writer->out + writer->bytes, header, sizeof header);
    writer->bytes += sizeof header;
    uint64_t *sizes = column_of(writer, columns_of(writer));
    memset(sizes, 0, (size_t)writer->count * sizeof *sizes);
    for (ptrdiff_t c = shape->lengths_at; c < shape->text_at; c++)
        for (ptrdiff_t i = 0; i < writer->count; i++)
            sizes[i] += column_of(writer, c)[i] - (column_of(writer, c)[i] > 0);
    Column texts = {sizes, 0, 8, writer->count};
    for (ptrdiff_t c = 0; c < columns_of(writer); c++) {
        int is_text = c >= shape->text_at && c < shape->width;
        int relative = c < shape->text_at || (c >= shape->width && shape->kinds[c - shape->width] <= MAX_INTEGER);
        if (pack_column(writer, c, is_text ? &texts : NULL, is_text ? (uint64_t)(c - shape->text_at) : 0, relative) < 0)
            return NO_MEMORY;
    }
    Piece piece = {writer->part, writer->count, writer->bytes, writer->order[0], malloc((size_t)writer->bytes)};
    if (piece.data == NULL)
        return NO_MEMORY;
    memcpy(piece.data, writer->out, (size_t)writer->bytes);
    writer->count = writer->group = 0;
    return add_piece(writer, piece);
}

/* The row among those of the last order that has this key; -1: none. */
static ptrdiff_t find(const BlockWriter *writer, const uint64_t *values, ptrdiff_t stride)
{
    for (ptrdiff_t row = writer->group; row < writer->count; row++) {
        ptrdiff_t c = 0;
        while (c < writer->shape->width && column_of(writer, c)[row] == values[c * stride])
            c++;
        if (c == writer->shape->width)
            return row;
    }
    return -1;
}

int write_row(BlockWriter *writer, uint64_t order, const uint64_t *values, ptrdiff_t stride)
{
    const Shape *shape = writer->shape;
    int failed = 0;
    if (writer->count > 0 && order == writer->order[writer->count - 1]) {
        ptrdiff_t row = find(writer, values, stride);
        for (ptrdiff_t s = 0; row >= 0 && s < shape->states && !failed; s++)
            failed = merge_state(shape->kinds[s], &column_of(writer, shape->width + s)[row],
                                 values[(shape->width + s) * stride]);
        if (row >= 0)
            return failed;
        if (writer->count - writer->group == SAME_ORDER_MAX)
            return TOO_ALIKE;
    } else {
        int beyond = writer->part < writer->bound_count && order >= writer->bounds[writer->part];
        if ((beyond || writer->count >= writer->most) && finish_block(writer) < 0)
            return NO_MEMORY;
        while (writer->part < writer->bound_count && order >= writer->bounds[writer->part])
            writer->part++;
        writer->group = writer->count;
    }
    for (ptrdiff_t c = 0; c < columns_of(writer); c++)
        column_of(writer, c)[writer->count] = values[c * stride];
    writer->order[writer->count++] = order;
    return 0;
}
