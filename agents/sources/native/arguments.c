/* Buffers of Python as kernels take them. */
#include "arguments.h"

void let_go(Buffers *buffers)
{
    for (Py_ssize_t i = 0; i < buffers->count; i++)
        PyBuffer_Release(&buffers->locked[i]);
    buffers->count = 0;
}

/* Lock an array; NULL, with an exception. */
static Py_buffer *lock(Buffers *buffers, PyObject *object, int flags)
{
    if (buffers->count == BUFFERS_MAX) {
        PyErr_Format(PyExc_ValueError, "more than %d arrays", BUFFERS_MAX);
        return NULL;
    }
    Py_buffer *locked = &buffers->locked[buffers->count];
    if (PyObject_GetBuffer(object, locked, flags) < 0)
        return NULL;
    buffers->count++;
    return locked;
}

static int is_array(const Py_buffer *array, Py_ssize_t item_bytes, Py_ssize_t width)
{
    return array->itemsize == item_bytes && array->ndim == (width > 1 ? 2 : 1) &&
           (width == 1 || array->shape[1] == width) &&
           (array->len == 0 || (uintptr_t)array->buf % (uintptr_t)item_bytes == 0);
}

const void *read_array(Buffers *buffers, PyObject *object, Py_ssize_t item_bytes, Py_ssize_t width, Py_ssize_t *rows)
{
    Py_buffer *array = lock(buffers, object, PyBUF_ND);
    if (array == NULL)
        return NULL;
    if (!is_array(array, item_bytes, width)) {
        PyErr_Format(PyExc_ValueError, "an array has to have rows of %zd items of %zd bytes", width, item_bytes);
        return NULL;
    }
    *rows = array->shape[0];
    return array->buf;
}

void *write_array(Buffers *buffers, PyObject *object, Py_ssize_t item_bytes, Py_ssize_t width, Py_ssize_t rows)
{
    Py_buffer *array = lock(buffers, object, PyBUF_ND | PyBUF_WRITABLE);
    if (array == NULL)
        return NULL;
    if (!is_array(array, item_bytes, width) || array->shape[0] < rows) {
        PyErr_Format(PyExc_ValueError, "an array has to have room for %zd rows of %zd items of %zd bytes", rows, width,
                     item_bytes);
        return NULL;
    }
    return array->buf;
}

void *change_array(Buffers *buffers, PyObject *object, Py_ssize_t item_bytes, Py_ssize_t *rows)
{
    void *items = write_array(buffers, object, item_bytes, 1, 0);
    if (items != NULL)
        *rows = buffers->locked[buffers->count - 1].shape[0];
    return items;
}

uint8_t *write_bitmap(Buffers *buffers, PyObject *object, Py_ssize_t rows)
{
    Py_buffer *array = lock(buffers, object, PyBUF_ND | PyBUF_WRITABLE);
    if (array == NULL)
        return NULL;
    if (!is_array(array, 1, 1) || array->shape[0] != (rows + 7) / 8) {
        PyErr_Format(PyExc_ValueError, "a bitmap has to have a bit for each of %zd rows", rows);
        return NULL;
    }
    return array->buf;
}

int read_block(PyObject *bytes, Block *block)
{
    char *text;
    if (PyBytes_AsStringAndSize(bytes, &text, &block->size) < 0)
        return -1;
    block->bytes = (const uint8_t *)text;
    if (block->size <= INT32_MAX)
        return 0;
    refused("a block has to have less than 2 GiB");
    return -1;
}

int read_texts(Buffers *buffers, PyObject *bytes, PyObject *places, Block *block, Spans *spans)
{
    if (read_block(bytes, block) < 0)
        return -1;
    spans->places = read_array(buffers, places, 4, 2, &spans->rows);
    return spans->places == NULL ? -1 : 0;
}

Py_ssize_t write_spans(Buffers *buffers, PyObject *sequence, Py_ssize_t rows, int32_t **spans)
{
    Py_ssize_t count = PySequence_Size(sequence);
    if (count > BUFFERS_MAX) {
        PyErr_Format(PyExc_ValueError, "more than %d outputs", BUFFERS_MAX);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        spans[i] = item == NULL ? NULL : write_array(buffers, item, 4, 2, rows);
        Py_XDECREF(item);
        if (spans[i] == NULL)
            return -1;
    }
    return count;
}

int open_column(Column *column, PyObject *bytes, PyObject *places, PyObject *out, Py_ssize_t item_bytes,
                PyObject *valid)
{
    column->buffers.count = 0;
    if (read_texts(&column->buffers, bytes, places, &column->block, &column->spans) < 0)
        return -1;
    Py_ssize_t rows = column->spans.rows;
    column->out = item_bytes == 0 ? write_bitmap(&column->buffers, out, rows)
                                  : write_array(&column->buffers, out, item_bytes, 1, rows);
    column->valid = column->out == NULL ? NULL : write_bitmap(&column->buffers, valid, rows);
    return column->valid == NULL ? -1 : 0;
}

PyObject *refused(const char *why)
{
    PyErr_SetString(PyExc_ValueError, why);
    return NULL;
}

PyObject *count_of(Py_ssize_t count)
{
    if (count >= 0)
        return PyLong_FromSsize_t(count);
    if (count == NO_MEMORY)
        return PyErr_NoMemory();
    return PyErr_Occurred() ? NULL : refused("a value lies outside of its block, or is none of its kind");
}

PyObject *counts_of_lines(int done, Py_ssize_t fitting, Py_ssize_t unfit)
{
    if (done == DONE)
        return Py_BuildValue("nn", fitting, unfit);
    if (done == NO_MEMORY)
        return PyErr_NoMemory();
    return refused("each line has to end with a newline, behind the one before");
}
