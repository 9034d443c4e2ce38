/* What the Python faces share: columns as arguments. Only the stable ABI is used, so one build serves every Python from
 * 3.11 on. */
#ifndef CBT_ARGUMENTS_H
#define CBT_ARGUMENTS_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "native.h"

#define COLUMNS_MAX 256

/* Columns of Python: integers (the same in all rows) or contiguous arrays, which stay locked until they are let go. */
typedef struct {
    Py_ssize_t count;
    Column columns[COLUMNS_MAX];
    Py_buffer locked[COLUMNS_MAX];
} Columns;

void let_go(Columns *columns);
/* Add a column of at least so many rows; 0, or -1 with an exception. */
int add_column(Columns *columns, PyObject *object, Py_ssize_t rows);
int add_columns(Columns *columns, PyObject *list, Py_ssize_t rows);
/* Whether items of so many bytes may be read where a buffer begins; an empty one is not read. */
int is_aligned(const Py_buffer *buffer, Py_ssize_t item_bytes);
/* NULL, with a ValueError. */
PyObject *refused(const char *why);

/* Rows of 8 bytes in a buffer. */
static inline Py_ssize_t eights(const Py_buffer *buffer)
{
    return buffer->len / 8;
}

PyObject *py_merge_blocks(PyObject *self, PyObject *args);
PyObject *py_write_ranked(PyObject *self, PyObject *args);

#endif
