/* Loops that NumPy and SciPy cannot fuse: sparse matrices, binned statistics, temperature.
 *
 * Every function computes a block of rows and releases the interpreter lock, so that callers run
 * blocks on several threads. Sums have a fixed order: the result depends neither on the number of
 * threads nor on the vector instructions of the processor. Compile with -ffp-contract=off; a fused
 * multiply-add would round differently. `graphtemper._core.compiled` loads this module.
 *
 * Nothing here trusts its input: types, shapes, row pointers, indices and labels are checked.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* Raise it with any change of a signature or of a result; compiled.py refuses other versions. */
#define VERSION 5

#define INLINE static inline __attribute__((always_inline))
/* One copy per instruction set, chosen when the module is loaded. Needs glibc's ifunc. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define CLONES __attribute__((target_clones("avx2", "default")))
#define WIDE_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#define WIDE_CLONES
#endif

/* ---- arrays ----------------------------------------------------------------------------- */

typedef struct {
    Py_buffer view;
    char kind; /* 'f' float32, 'd' float64, 'i' int32, 'l' int64 */
} Array;

static char kind_of(const Py_buffer *view) {
    const char *format = view->format ? view->format : "B";
    if (*format == '@' || *format == '=') format++;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (*format == '<') format++;
#endif
    if (format[0] == 0 || format[1] != 0) return 0;
    if (*format == 'f' && view->itemsize == 4) return 'f';
    if (*format == 'd' && view->itemsize == 8) return 'd';
    if (strchr("ilq", *format)) {
        if (view->itemsize == 4) return 'i';
        if (view->itemsize == 8) return 'l';
    }
    return 0;
}

/* How an array is read: as it lies in memory, written to, or with any distance between its rows. */
enum { READ, WRITE, ROWS };

/* Read an array of one of the allowed kinds; the caller releases it. */
static int take(PyObject *object, Array *array, const char *name, const char *kinds, int ndim,
                int use) {
    int flags = PyBUF_FORMAT | (use == ROWS ? PyBUF_STRIDES : PyBUF_C_CONTIGUOUS) |
                (use == WRITE ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object, &array->view, flags) < 0) return -1;
    array->kind = kind_of(&array->view);
    const Py_buffer *view = &array->view;
    if (use == ROWS && view->ndim == 2 &&
        (view->strides[1] != view->itemsize || view->strides[0] % view->itemsize)) {
        PyErr_Format(PyExc_ValueError, "the entries of a row of %s must lie side by side.", name);
        PyBuffer_Release(&array->view);
        return -1;
    }
    if (array->view.ndim != ndim || !array->kind || !strchr(kinds, array->kind)) {
        PyErr_Format(PyExc_TypeError, "%s must have %d dimension(s) and one of the types %s.", name,
                     ndim, kinds);
        PyBuffer_Release(&array->view);
        return -1;
    }
    return 0;
}

static void release(Array *arrays, int count) {
    while (count--) PyBuffer_Release(&arrays[count].view);
}

typedef struct {
    const char *name, *kinds;
    int ndim, use;
} Wanted;

static int take_all(PyObject **objects, Array *arrays, const Wanted *wanted, int count) {
    for (int i = 0; i < count; i++) {
        const Wanted *one = &wanted[i];
        if (take(objects[i], &arrays[i], one->name, one->kinds, one->ndim, one->use) < 0) {
            release(arrays, i);
            return -1;
        }
    }
    return 0;
}

#define SIZE(array, axis) ((int64_t)(array).view.shape[axis])

static int fail(Array *arrays, int count, const char *message) {
    release(arrays, count);
    PyErr_SetString(PyExc_ValueError, message);
    return -1;
}

/* ---- sparse matrix times dense columns -------------------------------------------------- */

/* How many edges ahead to fetch the row of a neighbour. */
#define AHEAD 16

typedef struct {
    const void *indptr, *indices, *values, *columns;
    void *out;
    int64_t first, last, entries, nodes, width;
    const int64_t *places; /* where each row goes, or NULL for its own place */
    int64_t rows;
} Product;

/* Rows of out = matrix @ columns, summed edge by edge as in SciPy's csr_matvecs, hence the same
 * bits. Returns the first row that is not valid, or -1. A constant WIDTH keeps a row in registers. */
#define DEFINE_ROWS(NAME, INDEX, VALUE, COLUMN, SUM)                                                \
    INLINE int64_t NAME(const Product *p, const int64_t width, const int fixed) {                   \
        const INDEX *restrict indptr = p->indptr, *restrict indices = p->indices;                   \
        const VALUE *restrict values = p->values;                                                   \
        const COLUMN *restrict columns = p->columns;                                                \
        const uint64_t nodes = (uint64_t)p->nodes;                                                  \
        const int64_t lines = (width * (int64_t)sizeof(COLUMN) + 63) / 64;                          \
        for (int64_t row = p->first; row < p->last; row++) {                                        \
            const int64_t start = indptr[row], stop = indptr[row + 1];                              \
            if (start < 0 || stop < start || stop > p->entries) return row;                         \
            const int64_t place = p->places ? p->places[row] : row;                                 \
            if ((uint64_t)place >= (uint64_t)p->rows) return row;                                   \
            SUM *restrict out = (SUM *)p->out + place * width;                                      \
            SUM own[32];                                                                            \
            SUM *restrict sum = fixed ? own : out;                                                  \
            for (int64_t k = 0; k < width; k++) sum[k] = 0;                                         \
            for (int64_t edge = start; edge < stop; edge++) {                                       \
                if ((uint64_t)(int64_t)indices[edge] >= nodes) return row;                          \
                if (edge + AHEAD < p->entries) {                                                    \
                    const char *next = (const char *)(columns + (int64_t)indices[edge + AHEAD] * width); \
                    for (int64_t line = 0; line < lines; line++)                                    \
                        __builtin_prefetch(next + 64 * line);                                       \
                    __builtin_prefetch(next + width * (int64_t)sizeof(COLUMN) - 1);                 \
                }                                                                                   \
                const SUM value = (SUM)values[edge];                                                \
                const COLUMN *restrict other = columns + (int64_t)indices[edge] * width;            \
                for (int64_t k = 0; k < width; k++) sum[k] += value * (SUM)other[k];                \
            }                                                                                       \
            if (fixed)                                                                              \
                for (int64_t k = 0; k < width; k++) out[k] = sum[k];                                \
        }                                                                                           \
        return -1;                                                                                  \
    }

DEFINE_ROWS(rows_iff, int32_t, float, float, float)
DEFINE_ROWS(rows_ifd, int32_t, float, double, double)
DEFINE_ROWS(rows_idd, int32_t, double, double, double)
DEFINE_ROWS(rows_lff, int64_t, float, float, float)
DEFINE_ROWS(rows_lfd, int64_t, float, double, double)
DEFINE_ROWS(rows_ldd, int64_t, double, double, double)
DEFINE_ROWS(rows_mixed, int32_t, float, float, double)

#define CASE(ROWS, N) case N: return ROWS(p, N, 1);

CLONES static int64_t multiply_narrow(const Product *p) {
    switch (p->width) {
        CASE(rows_iff, 1) CASE(rows_iff, 2) CASE(rows_iff, 3) CASE(rows_iff, 4) CASE(rows_iff, 5)
        CASE(rows_iff, 6) CASE(rows_iff, 7) CASE(rows_iff, 8) CASE(rows_iff, 9) CASE(rows_iff, 10)
        CASE(rows_iff, 12) CASE(rows_iff, 14) CASE(rows_iff, 15) CASE(rows_iff, 16)
        CASE(rows_iff, 20) CASE(rows_iff, 24) CASE(rows_iff, 30) CASE(rows_iff, 32)
    }
    return rows_iff(p, p->width, 0);
}
/* Columns in float32, sums in float64. */
CLONES static int64_t multiply_mixed(const Product *p) {
    switch (p->width) {
        CASE(rows_mixed, 1) CASE(rows_mixed, 2) CASE(rows_mixed, 3) CASE(rows_mixed, 4)
        CASE(rows_mixed, 5) CASE(rows_mixed, 6) CASE(rows_mixed, 7) CASE(rows_mixed, 8)
        CASE(rows_mixed, 9) CASE(rows_mixed, 10)
    }
    return rows_mixed(p, p->width, 0);
}
CLONES static int64_t multiply_ifd(const Product *p) { return rows_ifd(p, p->width, 0); }
CLONES static int64_t multiply_idd(const Product *p) { return rows_idd(p, p->width, 0); }
CLONES static int64_t multiply_lff(const Product *p) { return rows_lff(p, p->width, 0); }
CLONES static int64_t multiply_lfd(const Product *p) { return rows_lfd(p, p->width, 0); }
CLONES static int64_t multiply_ldd(const Product *p) { return rows_ldd(p, p->width, 0); }

static PyObject *multiply(PyObject *self, PyObject *args) {
    static const Wanted wanted[] = {{"indptr", "il", 1, READ}, {"indices", "il", 1, READ},
                                    {"values", "fd", 1, READ}, {"columns", "fd", 2, READ},
                                    {"out", "fd", 2, WRITE},     {"places", "l", 1, READ}};
    PyObject *o[6];
    Array a[6];
    Py_ssize_t first, last;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOOOOnn", &o[0], &o[1], &o[2], &o[3], &o[4], &o[5], &first, &last))
        return NULL;
    const int count = o[5] == Py_None ? 5 : 6;
    if (take_all(o, a, wanted, count) < 0) return NULL;
    const int64_t rows = SIZE(a[4], 0);
    Product p = {a[0].view.buf, a[1].view.buf, a[2].view.buf, a[3].view.buf, a[4].view.buf,
                 first, last, SIZE(a[1], 0), SIZE(a[3], 0), SIZE(a[3], 1),
                 count == 6 ? a[5].view.buf : NULL, rows};
    int64_t bad;
    const int mixed = a[3].kind == 'f' && a[4].kind == 'd' && a[0].kind == 'i';
    if (a[0].kind != a[1].kind || (a[3].kind != a[4].kind && !mixed) ||
        (a[2].kind == 'd' && a[3].kind == 'f'))
        return fail(a, count, "the types of the arrays do not fit together."), NULL;
    if (SIZE(a[0], 0) != rows + 1 || SIZE(a[2], 0) != p.entries || SIZE(a[4], 1) != p.width ||
        first < 0 || last < first || last > rows || (count == 6 && SIZE(a[5], 0) != rows))
        return fail(a, count, "the shapes of the arrays do not fit together."), NULL;
    Py_BEGIN_ALLOW_THREADS
    int wide = a[0].kind == 'l';
    if (mixed) bad = multiply_mixed(&p);
    else if (a[3].kind == 'f') bad = wide ? multiply_lff(&p) : multiply_narrow(&p);
    else if (a[2].kind == 'f') bad = wide ? multiply_lfd(&p) : multiply_ifd(&p);
    else bad = wide ? multiply_ldd(&p) : multiply_idd(&p);
    Py_END_ALLOW_THREADS
    release(a, count);
    if (bad >= 0)
        return PyErr_Format(PyExc_IndexError, "row %lld has an index out of range.", (long long)bad);
    Py_RETURN_NONE;
}

/* ---- rows of an adjacency matrix -------------------------------------------------------- */

typedef struct {
    int32_t low, high;
} Link;

/* Write the CSR rows of links, both ways and in order, with the diagonal if loops is 1. Takes room
 * for a number per node twice and for one per link. Returns the first link that is not
 * 0 <= low < high < nodes, or -1. */
static int64_t fill_rows(const Link *links, int64_t count, int64_t nodes, int loops,
                         int32_t *indptr, int32_t *indices, int32_t *next, int32_t *stop,
                         int32_t *larger) {
    int sorted = 1;
    memset(indptr, 0, (size_t)(nodes + 1) * sizeof *indptr);
    memset(stop, 0, (size_t)nodes * sizeof *stop);
    for (int64_t i = 0; i < count; i++) {
        const Link one = links[i];
        if (one.low < 0 || one.high <= one.low || one.high >= nodes) return i;
        if (i && one.low <= links[i - 1].low)
            sorted &= one.low == links[i - 1].low && one.high > links[i - 1].high;
        indptr[one.low + 1]++, indptr[one.high + 1]++, stop[one.low]++;
    }
    int32_t total = 0;
    for (int64_t node = 0; node < nodes; node++) {
        const int32_t size = stop[node];
        stop[node] = total, total += size;
        indptr[node + 1] += indptr[node] + loops;
        next[node] = indptr[node];
    }
    /* The smaller ends of a row: nodes in order give them in order. */
    if (sorted)
        for (int64_t i = 0; i < count; i++) indices[next[links[i].high]++] = links[i].low;
    else { /* first bring the links of each smaller end together */
        for (int64_t i = 0; i < count; i++) larger[stop[links[i].low]++] = links[i].high;
        for (int64_t node = 0, i = 0; node < nodes; node++)
            for (; i < stop[node]; i++) indices[next[larger[i]]++] = (int32_t)node;
    }
    /* The larger ends: what a row has so far are its smaller ones, and they have it. */
    for (int64_t node = 0; node < nodes; node++) {
        const int64_t last = next[node];
        if (loops) indices[next[node]++] = (int32_t)node;
        for (int64_t i = indptr[node]; i < last; i++) indices[next[indices[i]]++] = (int32_t)node;
    }
    return -1;
}

static PyObject *link_rows(PyObject *self, PyObject *args) {
    static const Wanted wanted[] = {
        {"links", "i", 2, READ}, {"indptr", "i", 1, WRITE}, {"indices", "i", 1, WRITE}};
    PyObject *o[3];
    Array a[3];
    int loops;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOp", &o[0], &o[1], &o[2], &loops)) return NULL;
    if (take_all(o, a, wanted, 3) < 0) return NULL;
    const int64_t count = SIZE(a[0], 0), nodes = SIZE(a[1], 0) - 1, size = SIZE(a[2], 0);
    if (SIZE(a[0], 1) != 2 || nodes < 0 || size > INT32_MAX || count > size / 2 ||
        size != 2 * count + (loops ? nodes : 0))
        return fail(a, 3, "the shapes of the arrays do not fit together."), NULL;
    int32_t *room = PyMem_Malloc((size_t)(2 * nodes + count + 1) * sizeof *room);
    if (!room) return release(a, 3), PyErr_NoMemory();
    /* With the interpreter lock: what is checked first must not change before it is used. */
    const int64_t bad = fill_rows(a[0].view.buf, count, nodes, loops, a[1].view.buf, a[2].view.buf,
                                  room, room + nodes, room + 2 * nodes);
    PyMem_Free(room);
    release(a, 3);
    if (bad >= 0)
        return PyErr_Format(PyExc_IndexError, "link %lld is not valid.", (long long)bad);
    Py_RETURN_NONE;
}

/* values[edge] = left[row] right[column], or left[row] without right; returns a bad row or -1. */
static int64_t fill_values(const int32_t *indptr, const int32_t *indices, const double *left,
                           const double *right, float *values, int64_t first, int64_t last,
                           int64_t entries, int64_t nodes) {
    for (int64_t row = first; row < last; row++) {
        const int64_t start = indptr[row], stop = indptr[row + 1];
        if (start < 0 || stop < start || stop > entries) return row;
        for (int64_t edge = start; edge < stop; edge++) {
            if ((uint64_t)(int64_t)indices[edge] >= (uint64_t)nodes) return row;
            values[edge] = (float)(right ? left[row] * right[indices[edge]] : left[row]);
        }
    }
    return -1;
}

static PyObject *scaled_ones(PyObject *self, PyObject *args) {
    static const Wanted wanted[] = {{"indptr", "i", 1, READ}, {"indices", "i", 1, READ},
                                    {"left", "d", 1, READ},   {"values", "f", 1, WRITE},
                                    {"right", "d", 1, READ}};
    PyObject *o[5];
    Array a[5];
    Py_ssize_t first, last;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOOOnn", &o[0], &o[1], &o[2], &o[3], &o[4], &first, &last))
        return NULL;
    const int count = o[4] == Py_None ? 4 : 5;
    if (take_all(o, a, wanted, count) < 0) return NULL;
    const int64_t rows = SIZE(a[2], 0), entries = SIZE(a[1], 0);
    const int64_t nodes = count == 5 ? SIZE(a[4], 0) : INT64_MAX;
    if (SIZE(a[0], 0) != rows + 1 || SIZE(a[3], 0) != entries || first < 0 || last < first ||
        last > rows)
        return fail(a, count, "the shapes of the arrays do not fit together."), NULL;
    int64_t bad;
    Py_BEGIN_ALLOW_THREADS
    bad = fill_values(a[0].view.buf, a[1].view.buf, a[2].view.buf,
                      count == 5 ? a[4].view.buf : NULL, a[3].view.buf, first, last, entries, nodes);
    Py_END_ALLOW_THREADS
    release(a, count);
    if (bad >= 0)
        return PyErr_Format(PyExc_IndexError, "row %lld has an index out of range.", (long long)bad);
    Py_RETURN_NONE;
}

/* Rows per tile. Classes come first in a tile, so that loops run over rows: long vectors. */
#define TILE 64

/* ---- binned calibration ----------------------------------------------------------------- */

typedef struct {
    const char *table;
    int64_t stride, first, last, classes, bins; /* stride in bytes */
    const int64_t *labels;
    const double *edges;
    int uniform, left;
    double tolerance, guard;
    void *tile;              /* (classes, TILE) */
    int64_t *count;          /* wrong ones, then correct ones */
    double *total, *squares; /* of the confidence */
} Bins;

/* The number of inner edges below the value, or not above it if bins are closed on the left. */
static int64_t search(const Bins *b, double value) {
    int64_t low = 0, high = b->bins - 1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        double edge = b->edges[middle + 1];
        if (edge < value || (b->left && edge == value)) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Returns the first row that is no distribution or has a label out of range, or -1. Numbers and
 * their order are those of `confidence_and_correct` and `sum_in_bins` in metrics. */
#define DEFINE_BINS(NAME, REAL)                                                                     \
    CLONES static int64_t NAME(const Bins *b) {                                                     \
        REAL *tile = b->tile;                                                                       \
        for (int64_t start = b->first; start < b->last; start += TILE) {                            \
            const int rows = (int)(b->last - start < TILE ? b->last - start : TILE);                \
            REAL sum[TILE], top[TILE], least[TILE];                                                 \
            int tied[TILE] = {0};                                                                   \
            for (int i = 0; i < rows; i++) {                                                        \
                const REAL *from = (const REAL *)(b->table + (start + i) * b->stride);              \
                for (int64_t k = 0; k < b->classes; k++) tile[k * TILE + i] = from[k];              \
            }                                                                                       \
            for (int i = 0; i < TILE; i++) sum[i] = top[i] = least[i] = tile[i];                    \
            for (int64_t k = 1; k < b->classes; k++)                                                \
                for (int i = 0; i < TILE; i++) {                                                    \
                    const REAL value = tile[k * TILE + i];                                          \
                    sum[i] += value;                                                                \
                    top[i] = value > top[i] ? value : top[i];                                       \
                    least[i] = value < least[i] ? value : least[i];                                 \
                }                                                                                   \
            for (int64_t k = 0; k < b->classes; k++)                                                \
                for (int i = 0; i < TILE; i++) tied[i] += tile[k * TILE + i] == top[i];             \
            for (int i = 0; i < rows; i++) {                                                        \
                const REAL error = sum[i] - (REAL)1;                                                \
                if (!((error < 0 ? -error : error) <= (REAL)b->tolerance && least[i] >= 0))         \
                    return start + i;                                                               \
                const int64_t label = b->labels[start + i];                                         \
                if ((uint64_t)label >= (uint64_t)b->classes) return start + i;                      \
                int correct = tile[label * TILE + i] == top[i];                                     \
                if (tied[i] > 1) /* the first of equal classes is the prediction */                 \
                    for (int64_t k = 0; k < label; k++) correct &= tile[k * TILE + i] != top[i];    \
                const double confidence = top[i] > 1 ? 1.0 : (double)top[i];                        \
                const double position = confidence * (double)b->bins;                               \
                const double gap = position - (double)(int64_t)(position + 0.5);                    \
                int64_t bin = (int64_t)position;                                                    \
                if (!b->uniform || (gap < 0 ? -gap : gap) < b->guard) bin = search(b, confidence);  \
                b->count[bin + (correct ? b->bins : 0)]++;                                          \
                b->total[bin] += confidence;                                                        \
                b->squares[bin] += confidence * confidence;                                         \
            }                                                                                       \
        }                                                                                           \
        return -1;                                                                                  \
    }

DEFINE_BINS(bin_floats, float)
DEFINE_BINS(bin_doubles, double)

static PyObject *bin_rows(PyObject *self, PyObject *args) {
    static const Wanted wanted[] = {{"probabilities", "fd", 2, ROWS}, {"labels", "l", 1, READ},
                                    {"edges", "d", 1, READ},          {"count", "l", 1, WRITE},
                                    {"total", "d", 1, WRITE},         {"squares", "d", 1, WRITE}};
    PyObject *o[6];
    Array a[6];
    Py_ssize_t first, last;
    Bins b;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOOOOnnppdd", &o[0], &o[1], &o[2], &o[3], &o[4], &o[5], &first,
                          &last, &b.uniform, &b.left, &b.tolerance, &b.guard))
        return NULL;
    if (take_all(o, a, wanted, 6) < 0) return NULL;
    b.table = a[0].view.buf, b.stride = a[0].view.strides[0], b.first = first, b.last = last;
    b.classes = SIZE(a[0], 1), b.bins = SIZE(a[4], 0), b.labels = a[1].view.buf;
    b.edges = a[2].view.buf, b.count = a[3].view.buf, b.total = a[4].view.buf;
    b.squares = a[5].view.buf;
    if (SIZE(a[1], 0) != SIZE(a[0], 0) || b.classes < 1 || b.bins < 1 ||
        SIZE(a[2], 0) != b.bins + 1 || SIZE(a[3], 0) != 2 * b.bins || SIZE(a[5], 0) != b.bins ||
        first < 0 || last < first || last > SIZE(a[0], 0))
        return fail(a, 6, "the shapes of the arrays do not fit together."), NULL;
    b.tile = PyMem_Calloc((size_t)b.classes * TILE, sizeof(double));
    if (!b.tile) return release(a, 6), PyErr_NoMemory();
    int64_t bad;
    Py_BEGIN_ALLOW_THREADS
    bad = a[0].kind == 'f' ? bin_floats(&b) : bin_doubles(&b);
    Py_END_ALLOW_THREADS
    PyMem_Free(b.tile);
    release(a, 6);
    return PyLong_FromLongLong(bad);
}

/* ---- temperature ------------------------------------------------------------------------ */

/* e^x is 0 below this; true values are below 1e-307. */
#define FLOOR (-708.0)

/* e^x for x <= 0, to about one unit in the last place, in the same bits on any processor. */
INLINE double exponential(double x) {
    const double big = 0x1.8p52;
    const double shifted = x * 0x1.71547652b82fep0 + big, n = shifted - big; /* x / log 2 */
    const double r = (x - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33;
    double sum = 1.0 / 6227020800.0;
    sum = sum * r + 1.0 / 479001600.0;
    sum = sum * r + 1.0 / 39916800.0;
    sum = sum * r + 1.0 / 3628800.0;
    sum = sum * r + 1.0 / 362880.0;
    sum = sum * r + 1.0 / 40320.0;
    sum = sum * r + 1.0 / 5040.0;
    sum = sum * r + 1.0 / 720.0;
    sum = sum * r + 1.0 / 120.0;
    sum = sum * r + 1.0 / 24.0;
    sum = sum * r + 1.0 / 6.0;
    sum = sum * r + 0.5;
    sum = 1.0 + (r + r * r * sum);
    int64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (int64_t)((uint64_t)(bits + 1023) << 52);
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return x < FLOOR ? 0.0 : sum * scale;
}

typedef struct {
    const char *table;
    int64_t stride, first, last, classes; /* stride in bytes */
    int floats;
    const int64_t *labels; /* or NULL */
    double beta;
    double *tile; /* (classes, TILE) */
    double sums[3][TILE];
    double logs, count, label, spread, limit, largest;
} Logits;

/* Copy up to TILE rows to the tile as gaps to the largest logit. Returns whether all are finite. */
INLINE int load_gaps(Logits *z, int64_t row, int64_t rows) {
    double top[TILE], least[TILE];
    for (int64_t i = 0; i < rows; i++) {
        const char *from = z->table + (row + i) * z->stride;
        if (z->floats)
            for (int64_t k = 0; k < z->classes; k++) z->tile[k * TILE + i] = ((const float *)from)[k];
        else
            for (int64_t k = 0; k < z->classes; k++) z->tile[k * TILE + i] = ((const double *)from)[k];
    }
    for (int64_t k = 0; k < z->classes; k++)
        for (int64_t i = rows; i < TILE; i++) z->tile[k * TILE + i] = 0.0;
    for (int i = 0; i < TILE; i++) top[i] = z->tile[i], least[i] = 0.0;
    for (int64_t k = 1; k < z->classes; k++)
        for (int i = 0; i < TILE; i++) {
            const double value = z->tile[k * TILE + i];
            top[i] = value > top[i] ? value : top[i];
        }
    for (int64_t k = 0; k < z->classes; k++)
        for (int i = 0; i < TILE; i++) {
            const double gap = z->tile[k * TILE + i] - top[i];
            z->tile[k * TILE + i] = gap;
            least[i] += gap; /* NaN stays NaN */
        }
    int finite = 1;
    for (int i = 0; i < TILE; i++) finite &= least[i] > -INFINITY;
    return finite;
}

/* Sums over rows: of E u, Var u and the third cumulant under softmax(u), u = beta gaps. */
WIDE_CLONES static int64_t nll_rows(Logits *z) {
    for (int64_t row = z->first; row < z->last; row += TILE) {
        const int64_t rows = z->last - row < TILE ? z->last - row : TILE;
        if (!load_gaps(z, row, rows)) return row;
        double total[TILE] = {0}, first[TILE] = {0}, second[TILE] = {0}, third[TILE] = {0};
        for (int64_t k = 0; k < z->classes; k++)
            for (int i = 0; i < TILE; i++) {
                double u = z->tile[k * TILE + i] * z->beta;
                u = u < -750.0 ? -750.0 : u;
                const double w = exponential(u), wu = w * u, wuu = wu * u;
                total[i] += w, first[i] += wu, second[i] += wuu, third[i] += wuu * u;
            }
        for (int i = 0; i < TILE; i++) {
            const double one = first[i] / total[i], two = second[i] / total[i];
            const double variance = two - one * one;
            z->sums[0][i] += one;
            z->sums[1][i] += variance;
            z->sums[2][i] += third[i] / total[i] - one * (two + 2.0 * variance);
        }
    }
    return -1;
}

/* Sums over rows: of the confidence and of its first two derivatives in log beta. */
WIDE_CLONES static int64_t confidence_rows(Logits *z) {
    for (int64_t row = z->first; row < z->last; row += TILE) {
        const int64_t rows = z->last - row < TILE ? z->last - row : TILE;
        if (!load_gaps(z, row, rows)) return row;
        double total[TILE] = {0}, first[TILE] = {0}, second[TILE] = {0};
        for (int64_t k = 0; k < z->classes; k++)
            for (int i = 0; i < TILE; i++) {
                double u = z->tile[k * TILE + i] * z->beta;
                u = u < -750.0 ? -750.0 : u;
                const double w = exponential(u), wu = w * u;
                total[i] += w, first[i] += wu, second[i] += wu * u;
            }
        for (int i = 0; i < rows; i++) {
            const double one = first[i] / total[i], two = second[i] / total[i];
            const double confidence = 1.0 / total[i];
            z->sums[0][i] += confidence;
            z->sums[1][i] -= confidence * one;
            z->sums[2][i] += confidence * (2.0 * one * one - one - two);
        }
    }
    return -1;
}

/* What logits and labels say before any temperature; see `summarise` in temperature/inverse.py. */
CLONES static int64_t summary_rows(Logits *z) {
    for (int64_t row = z->first; row < z->last; row += TILE) {
        const int64_t rows = z->last - row < TILE ? z->last - row : TILE;
        if (!load_gaps(z, row, rows)) return row;
        double spread[TILE] = {0}, tied[TILE] = {0};
        for (int64_t k = 0; k < z->classes; k++)
            for (int i = 0; i < TILE; i++) {
                const double gap = z->tile[k * TILE + i];
                spread[i] -= gap;
                tied[i] += gap == 0.0 ? 1.0 : 0.0;
            }
        for (int64_t i = 0; i < rows; i++) {
            const double own = spread[i] / (double)z->classes;
            if (own > 0.0) z->logs += log(own), z->count += 1.0;
            if (own > z->largest) z->largest = own;
            z->spread += own;
            z->limit += 1.0 / tied[i];
            if (z->labels) {
                const int64_t label = z->labels[row + i];
                if ((uint64_t)label >= (uint64_t)z->classes) return row + i;
                z->label += z->tile[label * TILE + i];
            }
        }
    }
    return -1;
}

/* Take logits, run over rows first ... last, and give back a tuple, or None if a row is not finite. */
static PyObject *over_logits(PyObject *logits, PyObject *labels, double beta, Py_ssize_t first,
                             Py_ssize_t last, int64_t (*run)(Logits *)) {
    static const Wanted wanted[] = {{"logits", "fd", 2, ROWS}, {"labels", "l", 1, READ}};
    PyObject *o[] = {logits, labels};
    Array a[2];
    const int count = labels == Py_None ? 1 : 2;
    if (take_all(o, a, wanted, count) < 0) return NULL;
    if (SIZE(a[0], 1) < 1 || first < 0 || last < first || last > SIZE(a[0], 0) ||
        (count == 2 && SIZE(a[1], 0) != SIZE(a[0], 0)))
        return fail(a, count, "the shapes of the arrays do not fit together."), NULL;
    Logits z = {.table = a[0].view.buf, .stride = a[0].view.strides[0], .first = first,
                .last = last, .classes = SIZE(a[0], 1), .floats = a[0].kind == 'f',
                .labels = count == 2 ? a[1].view.buf : NULL, .beta = beta};
    z.tile = PyMem_Malloc((size_t)z.classes * TILE * sizeof(double));
    if (!z.tile) return release(a, count), PyErr_NoMemory();
    int64_t bad;
    Py_BEGIN_ALLOW_THREADS
    bad = run(&z);
    Py_END_ALLOW_THREADS
    PyMem_Free(z.tile);
    release(a, count);
    if (bad >= 0) Py_RETURN_NONE;
    if (run == summary_rows)
        return Py_BuildValue("dddddd", z.logs, z.count, z.label, z.spread, z.limit, z.largest);
    double sums[3] = {0};
    for (int part = 0; part < 3; part++)
        for (int i = 0; i < TILE; i++) sums[part] += z.sums[part][i];
    return Py_BuildValue("ddd", sums[0], sums[1], sums[2]);
}

static PyObject *nll_sums(PyObject *self, PyObject *args) {
    PyObject *logits;
    double beta;
    Py_ssize_t first, last;
    (void)self;
    if (!PyArg_ParseTuple(args, "Odnn", &logits, &beta, &first, &last)) return NULL;
    return over_logits(logits, Py_None, beta, first, last, nll_rows);
}

static PyObject *confidence_sums(PyObject *self, PyObject *args) {
    PyObject *logits;
    double beta;
    Py_ssize_t first, last;
    (void)self;
    if (!PyArg_ParseTuple(args, "Odnn", &logits, &beta, &first, &last)) return NULL;
    return over_logits(logits, Py_None, beta, first, last, confidence_rows);
}

static PyObject *summary(PyObject *self, PyObject *args) {
    PyObject *logits, *labels;
    Py_ssize_t first, last;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOnn", &logits, &labels, &first, &last)) return NULL;
    return over_logits(logits, labels, 0.0, first, last, summary_rows);
}

/* ---- columns ---------------------------------------------------------------------------- */

/* Add rows first ... last of a float32 table to float64 sums: the entries, or with centre the
 * squares of their float32 distances from it. Row by row, as in NumPy. */
CLONES static void sum_columns(const float *table, const float *centre, double *out, int64_t first,
                               int64_t last, int64_t width) {
    for (int64_t row = first; row < last; row++) {
        const float *restrict from = table + row * width;
        double *restrict to = out;
        if (centre)
            for (int64_t k = 0; k < width; k++) {
                const double gap = from[k] - centre[k];
                to[k] += gap * gap;
            }
        else
            for (int64_t k = 0; k < width; k++) to[k] += from[k];
    }
}

static PyObject *column_sums(PyObject *self, PyObject *args) {
    static const Wanted wanted[] = {
        {"table", "f", 2, READ}, {"out", "d", 1, WRITE}, {"centre", "f", 1, READ}};
    PyObject *o[3];
    Array a[3];
    Py_ssize_t first, last;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOnn", &o[0], &o[1], &o[2], &first, &last)) return NULL;
    const int count = o[2] == Py_None ? 2 : 3;
    if (take_all(o, a, wanted, count) < 0) return NULL;
    const int64_t width = SIZE(a[0], 1);
    if (SIZE(a[1], 0) != width || (count == 3 && SIZE(a[2], 0) != width) || first < 0 ||
        last < first || last > SIZE(a[0], 0))
        return fail(a, count, "the shapes of the arrays do not fit together."), NULL;
    Py_BEGIN_ALLOW_THREADS
    sum_columns(a[0].view.buf, count == 3 ? a[2].view.buf : NULL, a[1].view.buf, first, last, width);
    Py_END_ALLOW_THREADS
    release(a, count);
    Py_RETURN_NONE;
}

/* ---- module ----------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"multiply", multiply, METH_VARARGS,
     "multiply(indptr, indices, values, columns, out, places, first, last): rows of a CSR product."},
    {"link_rows", link_rows, METH_VARARGS, "link_rows(links, indptr, indices, loops)"},
    {"scaled_ones", scaled_ones, METH_VARARGS,
     "scaled_ones(indptr, indices, left, values, right, first, last)"},
    {"bin_rows", bin_rows, METH_VARARGS, "Add rows of probabilities to bins; returns a bad row or -1."},
    {"nll_sums", nll_sums, METH_VARARGS, "nll_sums(logits, beta, first, last)"},
    {"confidence_sums", confidence_sums, METH_VARARGS, "confidence_sums(logits, beta, first, last)"},
    {"summary", summary, METH_VARARGS, "summary(logits, labels, first, last)"},
    {"column_sums", column_sums, METH_VARARGS, "column_sums(table, out, centre, first, last)"},
    {NULL, NULL, 0, NULL}};

static int set_up(PyObject *module) { return PyModule_AddIntConstant(module, "VERSION", VERSION); }

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)set_up}, {0, NULL}};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "_kernels", .m_methods = methods, .m_slots = slots};

PyMODINIT_FUNC PyInit__kernels(void) { return PyModuleDef_Init(&definition); }
