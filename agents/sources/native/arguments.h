/* Buffers of Python as kernels take them. Only the stable ABI is used, so one build serves every Python from 3.11
 * on. */
#ifndef LINES_ARGUMENTS_H
#define LINES_ARGUMENTS_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "lines.h"

/* Columns are far fewer. */
#define BUFFERS_MAX 512

/* Contiguous, aligned arrays, which stay locked until they are let go. */
typedef struct {
    Py_ssize_t count;
    Py_buffer locked[BUFFERS_MAX];
} Buffers;

void let_go(Buffers *buffers);
/* The items of an array of rows of `width` items each, of so many bytes; NULL, with an exception. */
const void *read_array(Buffers *buffers, PyObject *object, Py_ssize_t item_bytes, Py_ssize_t width, Py_ssize_t *rows);
/* Of one that has room for so many rows. */
void *write_array(Buffers *buffers, PyObject *object, Py_ssize_t item_bytes, Py_ssize_t width, Py_ssize_t rows);
/* Of a bitmap of so many rows, and not of more. */
uint8_t *write_bitmap(Buffers *buffers, PyObject *object, Py_ssize_t rows);
/* Lines or other texts, which nobody can change; 0, or -1 with an exception. The object has to be held. */
int read_block(PyObject *bytes, Block *block);
/* Texts in a block; 0, or -1 with an exception. */
int read_texts(Buffers *buffers, PyObject *bytes, PyObject *places, Block *block, Spans *spans);
/* NULL, with a ValueError. */
PyObject *refused(const char *why);

/* module_pairs.c */
PyObject *py_pairs(PyObject *self, PyObject *args);
/* module_values.c */
PyObject *py_integers(PyObject *self, PyObject *args);
PyObject *py_decimals(PyObject *self, PyObject *args);
PyObject *py_requests(PyObject *self, PyObject *args);
PyObject *py_uris(PyObject *self, PyObject *args);
PyObject *py_gather(PyObject *self, PyObject *args);

/* module_objects.c */
PyObject *py_read_objects(PyObject *self, PyObject *args);
PyObject *py_object_integers(PyObject *self, PyObject *args);
PyObject *py_object_decimals(PyObject *self, PyObject *args);
PyObject *py_object_booleans(PyObject *self, PyObject *args);
PyObject *py_object_times(PyObject *self, PyObject *args);
PyObject *py_object_texts(PyObject *self, PyObject *args);
PyObject *py_object_codes(PyObject *self, PyObject *args);

/* module_sweep.c */
PyObject *py_sweep(PyObject *self, PyObject *args);
PyObject *py_is_utf8(PyObject *self, PyObject *args);

#endif
