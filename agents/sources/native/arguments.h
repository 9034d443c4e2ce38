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
/* The items of an array that is read and written. */
void *change_array(Buffers *buffers, PyObject *object, Py_ssize_t item_bytes, Py_ssize_t *rows);
/* Of a bitmap of so many rows, and not of more. */
uint8_t *write_bitmap(Buffers *buffers, PyObject *object, Py_ssize_t rows);
/* Lines or other texts, which nobody can change; 0, or -1 with an exception. The object has to be held. */
int read_block(PyObject *bytes, Block *block);
/* Texts in a block; 0, or -1 with an exception. */
int read_texts(Buffers *buffers, PyObject *bytes, PyObject *places, Block *block, Spans *spans);
/* The arrays of some outputs' places, each with room for so many rows; how many there are, or -1 with an exception. */
Py_ssize_t write_spans(Buffers *buffers, PyObject *sequence, Py_ssize_t rows, int32_t **spans);

/* A column made of texts: where these are, and what their values fill. */
typedef struct {
    Buffers buffers;
    Block block;
    Spans spans;
    void *out;
    uint8_t *valid;
} Column;

/* The values have so many bytes each, 0: they are bits. 0, or -1 with an exception; in any case there is something to let
 * go of. */
int open_column(Column *column, PyObject *bytes, PyObject *places, PyObject *out, Py_ssize_t item_bytes,
                PyObject *valid);

/* NULL, with a ValueError. */
PyObject *refused(const char *why);
/* A count as Python has it; NULL, with an exception, of what kernels return that have failed. */
PyObject *count_of(Py_ssize_t count);
/* How many lines fit and how many do not, of a kernel that reads lines; NULL, with an exception, if it has failed. */
PyObject *counts_of_lines(int done, Py_ssize_t fitting, Py_ssize_t unfit);

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

/* module_dictionary.c */
PyObject *py_look_up(PyObject *self, PyObject *args);
PyObject *py_fill_slots(PyObject *self, PyObject *args);

/* module_sweep.c */
PyObject *py_sweep(PyObject *self, PyObject *args);
PyObject *py_is_utf8(PyObject *self, PyObject *args);

/* module_records.c */
PyObject *py_records(PyObject *self, PyObject *args);

#endif
