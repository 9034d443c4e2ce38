/* Columns of Python as kernels take them. */
#include "arguments.h"

void let_go(Columns *columns)
{
    for (Py_ssize_t i = 0; i < columns->count; i++)
        if (columns->columns[i].items != NULL)
            PyBuffer_Release(&columns->locked[i]);
    columns->count = 0;
}

int add_column(Columns *columns, PyObject *object, Py_ssize_t rows)
{
    if (columns->count == COLUMNS_MAX) {
        PyErr_Format(PyExc_ValueError, "more than %d columns", COLUMNS_MAX);
        return -1;
    }
    Column *column = &columns->columns[columns->count];
    Py_buffer *locked = &columns->locked[columns->count];
    *column = (Column){NULL, 0, 0, rows};
    if (PyLong_Check(object)) {
        column->same = PyLong_AsUnsignedLongLong(object);
        if (column->same == UINT64_MAX && PyErr_Occurred())
            return -1;
    } else {
        if (PyObject_GetBuffer(object, locked, PyBUF_ND) < 0)
            return -1;
        Py_ssize_t size = locked->itemsize;
        if (locked->ndim != 1 || locked->shape[0] < rows ||
            (size != 1 && size != 2 && size != 4 && size != 8) || !is_aligned(locked, size)) {
            PyBuffer_Release(locked);
            PyErr_Format(PyExc_ValueError, "a column has to be an integer or %zd integers of up to 64 bits", rows);
            return -1;
        }
        column->items = locked->buf;
        column->item_bytes = size;
        column->rows = locked->shape[0];
    }
    columns->count++;
    return 0;
}

int add_columns(Columns *columns, PyObject *list, Py_ssize_t rows)
{
    Py_ssize_t count = PyList_Size(list);
    for (Py_ssize_t i = 0; i < count; i++) {
        /* Since Python 3.12 a buffer may be taken by Python code, which may change the list. */
        PyObject *item = Py_XNewRef(PyList_GetItem(list, i));
        int added = item == NULL ? -1 : add_column(columns, item, rows);
        Py_XDECREF(item);
        if (added < 0)
            return -1;
    }
    return count < 0 ? -1 : 0;
}

int is_aligned(const Py_buffer *buffer, Py_ssize_t item_bytes)
{
    return buffer->len == 0 || (uintptr_t)buffer->buf % (uintptr_t)item_bytes == 0;
}

PyObject *refused(const char *why)
{
    PyErr_SetString(PyExc_ValueError, why);
    return NULL;
}
