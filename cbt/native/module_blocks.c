/* The Python face of what merges blocks. */
#include <stdlib.h>

#include "arguments.h"
#include "blocks.h"

/* A writer of some shape, and the buffers it was made from. */
typedef struct {
    Shape shape;
    Py_buffer kinds, bounds;
    BlockWriter writer;
} Writing;

static void close_writing(Writing *writing)
{
    for (Py_ssize_t i = 0; i < writing->writer.piece_count; i++)
        free(writing->writer.pieces[i].data);
    free(writing->writer.order);
    free(writing->writer.columns);
    free(writing->writer.out);
    free(writing->writer.pieces);
    PyBuffer_Release(&writing->kinds);
    PyBuffer_Release(&writing->bounds);
}

/* 0, or -1 with an exception, and nothing to close. The buffers have been taken. */
static int open_writing(Writing *writing, Py_ssize_t most)
{
    Shape *shape = &writing->shape;
    BlockWriter *writer = &writing->writer;
    shape->kinds = writing->kinds.buf;
    shape->states = writing->kinds.len;
    /* Unsigned, since it is not known yet that there are not too many. */
    size_t columns = (size_t)shape->width + (size_t)shape->states;
    int sound = shape->lengths_at >= 1 && shape->text_at >= shape->lengths_at && shape->width >= shape->text_at &&
                (shape->width == shape->text_at || shape->text_at > shape->lengths_at) &&
                shape->width <= SHAPE_COLUMNS_MAX && columns <= SHAPE_COLUMNS_MAX && most > 0 &&
                most <= (Py_ssize_t)NUMBER_MASK && is_aligned(&writing->bounds, 8);
    for (Py_ssize_t i = 0; i < shape->states; i++)
        sound = sound && shape->kinds[i] < KINDS;
    memset(writer, 0, sizeof *writer);
    writer->shape = shape;
    writer->bounds = writing->bounds.buf;
    writer->bound_count = eights(&writing->bounds);
    writer->most = most;
    if (sound) {
        size_t rows = (size_t)(most + SAME_ORDER_MAX);
        writer->order = malloc(rows * sizeof *writer->order);
        writer->columns = malloc(rows * (columns + 1) * sizeof *writer->columns);
        if (writer->order != NULL && writer->columns != NULL)
            return 0;
        PyErr_NoMemory();
    } else {
        refused("no rows have such a shape");
    }
    close_writing(writing);
    return -1;
}

/* What has been written, as a list of (part, block, rows, lowest order); None if NumPy has to do it. */
static PyObject *written(BlockWriter *writer, int ended)
{
    if (ended == NO_MEMORY)
        return PyErr_NoMemory();
    if (ended == BAD_BLOCK)
        return refused("these are not blocks of such rows");
    if (ended != DONE)
        return Py_NewRef(Py_None);
    free(writer->columns);
    writer->columns = NULL;
    PyObject *list = PyList_New(writer->piece_count);
    for (Py_ssize_t i = 0; list != NULL && i < writer->piece_count; i++) {
        Piece *piece = &writer->pieces[i];
        PyObject *entry =
            Py_BuildValue("ny#nK", (Py_ssize_t)piece->part, (const char *)piece->data, (Py_ssize_t)piece->bytes,
                          (Py_ssize_t)piece->rows, (unsigned long long)piece->low);
        free(piece->data);
        piece->data = NULL;
        if (entry == NULL || PyList_SetItem(list, i, entry) < 0)
            Py_CLEAR(list);
    }
    return list;
}

PyObject *py_merge_blocks(PyObject *self, PyObject *args)
{
    PyObject *list, *result = NULL;
    Py_ssize_t most;
    Writing writing;
    Shape *shape = &writing.shape;
    if (!PyArg_ParseTuple(args, "O(nnny*)y*n:merge_blocks", &list, &shape->lengths_at, &shape->text_at, &shape->width,
                          &writing.kinds, &writing.bounds, &most) ||
        open_writing(&writing, most) < 0)
        return NULL;
    Py_ssize_t count = PyList_Size(list), taken = 0;
    Py_buffer *locked = count > 0 ? calloc((size_t)count, sizeof *locked) : NULL;
    Buffer *blocks = count > 0 ? calloc((size_t)count, sizeof *blocks) : NULL;
    while (locked != NULL && blocks != NULL && taken < count) {
        /* As in add_columns. */
        PyObject *item = Py_XNewRef(PyList_GetItem(list, taken));
        int failed = item == NULL || PyObject_GetBuffer(item, &locked[taken], PyBUF_SIMPLE) < 0;
        Py_XDECREF(item);
        if (failed)
            break;
        blocks[taken] = (Buffer){locked[taken].buf, locked[taken].len};
        taken++;
    }
    if (count > 0 && taken == count) {
        int ended;
        Py_BEGIN_ALLOW_THREADS
        ended = merge_blocks(&writing.writer, blocks, count);
        Py_END_ALLOW_THREADS
        result = written(&writing.writer, ended);
    } else if (!PyErr_Occurred()) {
        refused("there has to be a block");
    }
    for (Py_ssize_t i = 0; i < taken; i++)
        PyBuffer_Release(&locked[i]);
    free(locked);
    free(blocks);
    close_writing(&writing);
    return result;
}

PyObject *py_write_ranked(PyObject *self, PyObject *args)
{
    PyObject *list, *result = NULL;
    Py_buffer packed;
    Py_ssize_t most;
    Writing writing;
    Shape *shape = &writing.shape;
    if (!PyArg_ParseTuple(args, "Oy*(nnny*)y*n:write_ranked", &list, &packed, &shape->lengths_at, &shape->text_at,
                          &shape->width, &writing.kinds, &writing.bounds, &most))
        return NULL;
    if (open_writing(&writing, most) < 0) {
        PyBuffer_Release(&packed);
        return NULL;
    }
    Columns columns;
    columns.count = 0;
    Py_ssize_t rows = eights(&packed);
    if (rows < 1 || !is_aligned(&packed, 8) || PyList_Size(list) != shape->width + shape->states) {
        refused("there has to be a row, and its columns have to be those of the shape");
    } else if (add_columns(&columns, list, rows) == 0 && columns.count == shape->width + shape->states) {
        int ended;
        Py_BEGIN_ALLOW_THREADS
        ended = write_ranked(&writing.writer, columns.columns, packed.buf, rows);
        Py_END_ALLOW_THREADS
        result = written(&writing.writer, ended);
    } else if (!PyErr_Occurred()) {
        refused("the list of columns has changed");
    }
    let_go(&columns);
    PyBuffer_Release(&packed);
    close_writing(&writing);
    return result;
}
