/* Paddock's C interface: runs exported models without Python. docs/howto/native.md has the guide.
 *
 * Functions return a status; paddock_last_error() has the text of the last one that failed in this thread. No C++
 * exception leaves the library. Handles are opaque. Structs begin with their size, and options are set by name, so that
 * programs that were compiled against an older header of the same major version go on working.
 *
 * Threads: a predictor serves one thread at a time. A second thread that uses it meanwhile gets PADDOCK_BUSY and
 * nothing else happens. Give each thread a clone: clones share weights and all that is derived from them.
 */
#ifndef PADDOCK_H
#define PADDOCK_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define PADDOCK_EXPORT
#else
#define PADDOCK_EXPORT __attribute__((visibility("default")))
#endif

/* Of this interface: the major number changes when a program must be changed, the minor one with each addition. */
#define PADDOCK_INTERFACE_MAJOR 1
#define PADDOCK_INTERFACE_MINOR 2

#define PADDOCK_MAX_RANK 8

#ifdef __cplusplus
extern "C" {
#endif

typedef enum paddock_status {
  PADDOCK_OK = 0,
  PADDOCK_BAD_ARGUMENT = 1,  /* a null pointer, an unknown name, a value that is not allowed */
  PADDOCK_BAD_FILE = 2,      /* a file is missing, damaged, newer, or asks for more than its limits */
  PADDOCK_BAD_SHAPE = 3,     /* a tensor's shape does not fit the model */
  PADDOCK_BAD_TYPE = 4,      /* a tensor's element type does not fit the model */
  PADDOCK_NOT_SUPPORTED = 5, /* this model, data or machine cannot do that; loops that take too many steps */
  PADDOCK_NO_MEMORY = 6,     /* no memory is left, or more would be used than `memory_bytes` */
  PADDOCK_BUSY = 7,          /* another thread is using this predictor */
  PADDOCK_BAD_STATE = 8,     /* an earlier run failed while it wrote a state, or there is no run to ask about */
  PADDOCK_NUMERICS = 9,      /* a result is no number, where that is looked for */
  PADDOCK_INTERNAL = 10      /* a fault of the library */
} paddock_status;

typedef enum paddock_type {
  PADDOCK_FLOAT32 = 0,
  PADDOCK_FLOAT64 = 1,
  PADDOCK_FLOAT16 = 2,
  PADDOCK_BFLOAT16 = 3,
  PADDOCK_INT8 = 4,
  PADDOCK_UINT8 = 5,
  PADDOCK_INT32 = 6,
  PADDOCK_INT64 = 7,
  PADDOCK_BOOL = 8 /* one byte, 0 or 1 */
} paddock_type;

/* A dense row-major tensor. */
typedef struct paddock_tensor {
  uint32_t struct_size; /* sizeof(paddock_tensor) */
  int32_t type;         /* a paddock_type */
  int32_t rank;         /* number of axes, 0 to PADDOCK_MAX_RANK */
  int32_t reserved;     /* 0 */
  int64_t shape[PADDOCK_MAX_RANK];
  const void* data; /* aligned to the size of an element; may be null where there is no element */
  uint64_t bytes;   /* of all elements */
} paddock_tensor;

/* What an input takes or an output gives. */
typedef struct paddock_info {
  uint32_t struct_size; /* sizeof(paddock_info) */
  int32_t type;
  int32_t rank;
  int32_t fixed;                   /* whether no other shape is possible; else extents may differ from call to call */
  int64_t shape[PADDOCK_MAX_RANK]; /* as exported */
  const char* name;                /* lives as long as the predictor */
} paddock_info;

typedef struct paddock_options paddock_options;
typedef struct paddock_predictor paddock_predictor;

/* Version of the interface that the library has: major * 1000 + minor; a program may compare it with its header's. */
PADDOCK_EXPORT int32_t paddock_interface_version(void);
/* Version of the library, such as "0.1.0". */
PADDOCK_EXPORT const char* paddock_version(void);
/* The text of the last failure in this thread, UTF-8, "" before the first; valid until the next one in this thread. */
PADDOCK_EXPORT const char* paddock_last_error(void);
/* "float32" for PADDOCK_FLOAT32; null for no type. */
PADDOCK_EXPORT const char* paddock_type_name(int32_t type);
/* Bytes of an element; 0 for no type. */
PADDOCK_EXPORT size_t paddock_type_size(int32_t type);

/* Of the process: threads that kernels of all predictors share (1 to 1024; by default the cores that it may use). */
PADDOCK_EXPORT paddock_status paddock_set_threads(int32_t count);
PADDOCK_EXPORT int32_t paddock_threads(void);
/* "avx512", "avx2" or "baseline": what kernels are compiled for; by default the best one of this machine. Set it
 * before any model runs. The name that is returned lives as long as the process; null and an error where no kernels
 * are found. */
PADDOCK_EXPORT paddock_status paddock_set_instruction_set(const char* name);
PADDOCK_EXPORT const char* paddock_instruction_set(void);

/* Options of loading, by the names that paddock_options_set takes:
 *
 *   "map_weights"   1, the default: weights stay in the mapped file, which must not be written in place; 0: copies.
 *
 *   "memory_bytes"  what a run may plan for values and results; 0, the default, for any amount. Kernels' scratch memory
 *                   and what they derive from weights come on top.
 *
 *   "loop_steps"    what the loops of a run may take together.
 *
 *   "pixels"        of a picture that is prepared, and of what it becomes.
 *
 *   "text_bytes", "weight_bytes", "elements", "element_growth", "plan_elements", "nodes", "levels"
 *                   budgets of reading an export; see docs/howto/native.md.
 */
PADDOCK_EXPORT paddock_status paddock_options_new(paddock_options** options);
PADDOCK_EXPORT paddock_status paddock_options_set(paddock_options* options, const char* name, int64_t value);
PADDOCK_EXPORT void paddock_options_free(paddock_options* options);

/* Keys that a sealed export is opened with (docs/howto/sealed.md), by name:
 *
 *   "decrypt"  the key that encrypted it: 32 bytes, as they are, in hexadecimal or in Base64.
 *   "verify"   its owner's public key, PEM. With it an export is opened only where that owner signed it.
 *
 * They are asked for when a sealed export is loaded, which needs OpenSSL's libcrypto.so.3 on the machine.
 * PADDOCK_BAD_FILE where a key or the export does not fit, PADDOCK_NOT_SUPPORTED where there is no libcrypto. */

/* From a source: the path of a file, "env:NAME" (an environment variable) or "command:WORDS" (what a program prints
 * within 60 s; no shell reads the words). */
PADDOCK_EXPORT paddock_status paddock_options_set_text(paddock_options* options, const char* name, const char* text);
/* The bytes themselves; they are copied, and the copy is wiped when the options are freed. */
PADDOCK_EXPORT paddock_status paddock_options_set_key(paddock_options* options, const char* name, const void* key,
                                                      size_t bytes);
/* From a function, which writes up to `room` bytes to `key` and their number to `bytes`, and returns 0; anything else
 * is a failure, and so is a C++ exception. `context` is handed to it and must live until the options are freed. */
typedef int32_t (*paddock_key_function)(void* context, void* key, size_t room, size_t* bytes);
PADDOCK_EXPORT paddock_status paddock_options_set_key_function(paddock_options* options, const char* name,
                                                               paddock_key_function function, void* context);

/* Loads the folder that `paddock export` wrote. `options` may be null. */
PADDOCK_EXPORT paddock_status paddock_load(const char* folder, const paddock_options* options,
                                           paddock_predictor** predictor);
/* Another predictor on the same weights, for another thread. States, where the model has them, begin as they are. */
PADDOCK_EXPORT paddock_status paddock_clone(paddock_predictor* predictor, paddock_predictor** clone);
/* Frees a predictor and its outputs; null is allowed. No other thread may be using it. */
PADDOCK_EXPORT void paddock_free(paddock_predictor* predictor);

PADDOCK_EXPORT int32_t paddock_input_count(const paddock_predictor* predictor);
PADDOCK_EXPORT int32_t paddock_output_count(const paddock_predictor* predictor);
PADDOCK_EXPORT paddock_status paddock_input_info(const paddock_predictor* predictor, int32_t index, paddock_info* info);
PADDOCK_EXPORT paddock_status paddock_output_info(const paddock_predictor* predictor, int32_t index,
                                                  paddock_info* info);
/* The public key that signed a sealed export, 64 hexadecimal digits; null where nobody did. Without the key "verify" a
 * signature is checked by this key, which anybody may have put there. Lives as long as the predictor. */
PADDOCK_EXPORT const char* paddock_signer(const paddock_predictor* predictor);
/* What the exporter stored beside the network (preprocessing, classes), as JSON; lives as long as the predictor. */
PADDOCK_EXPORT const char* paddock_metadata(const paddock_predictor* predictor);

/* The part of it at a JSON pointer (RFC 6901), such as "/processor/class_names/0": a text's own characters, of all else
 * its JSON. Lives as long as the predictor. PADDOCK_BAD_ARGUMENT where there is nothing. */
PADDOCK_EXPORT paddock_status paddock_metadata_at(paddock_predictor* predictor, const char* pointer, const char** text);

/* Runs once. `inputs` are `count` tensors in the order of paddock_input_info; their memory is read during the call and
 * not copied. */
PADDOCK_EXPORT paddock_status paddock_run(paddock_predictor* predictor, const paddock_tensor* inputs, int32_t count);
/* A view of an output of the last run. Its memory is the predictor's; it lives until the next run, until
 * paddock_release_outputs or until the predictor is freed. Set output->struct_size before the call. */
PADDOCK_EXPORT paddock_status paddock_output(paddock_predictor* predictor, int32_t index, paddock_tensor* output);
PADDOCK_EXPORT paddock_status paddock_release_outputs(paddock_predictor* predictor);

/* -- Pictures: what an export's metadata say of how they are prepared, with Python's bits. Decode them by a library of
 * your own. Resize, ResizeKeepRatio, ResizeShort, Letterbox, PadToMultiple, CenterCrop, ObjectCrop, Normalize and
 * FrameDifferences are done, with the interpolations nearest, linear, cubic and area; PADDOCK_NOT_SUPPORTED for all
 * else. */

typedef struct paddock_picture {
  uint32_t struct_size; /* sizeof(paddock_picture) */
  int32_t height, width;
  int32_t reserved;      /* 0 */
  int64_t row_bytes;     /* from the start of a row to that of the next: 3 * width or more */
  const uint8_t* pixels; /* red, green, blue, one byte each */
} paddock_picture;

typedef struct paddock_prepared paddock_prepared;

/* Prepares a batch of pictures; of a video classifier they are the frames of one clip. PADDOCK_BAD_SHAPE where they
 * have several sizes after their transforms: give each size by a call of its own. It may be asked in several threads at
 * once, and goes on living without the predictor. */
PADDOCK_EXPORT paddock_status paddock_prepare(paddock_predictor* predictor, const paddock_picture* pictures,
                                              int32_t count, paddock_prepared** prepared);
/* Prepares objects of one picture for a model of keypoints: `boxes` [count, 4] as x1 y1 x2 y2 in its pixels, such as a
 * detector found. Each becomes a picture of the batch; paddock_points_back(prepared, number of the box, ...) leads its
 * points to the picture. paddock_prepare takes all of a picture for the object. Since 1.2. */
PADDOCK_EXPORT paddock_status paddock_prepare_objects(paddock_predictor* predictor, const paddock_picture* picture,
                                                      const float* boxes, int32_t count, paddock_prepared** prepared);
PADDOCK_EXPORT void paddock_prepared_free(paddock_prepared* prepared);
/* The tensor for the predictor's input `index`, a view that lives as long as `prepared`. Set input->struct_size before.
 */
PADDOCK_EXPORT paddock_status paddock_prepared_input(const paddock_prepared* prepared, int32_t index,
                                                     paddock_tensor* input);
/* From pixels of the input to the picture's own, as Python does: boxes [count, 4] as x1 y1 x2 y2, cut to the picture;
 * points [count, 2] as x y. `back` may be the same memory. */
PADDOCK_EXPORT paddock_status paddock_boxes_back(const paddock_prepared* prepared, int32_t picture, const float* boxes,
                                                 int64_t count, float* back);
PADDOCK_EXPORT paddock_status paddock_points_back(const paddock_prepared* prepared, int32_t picture,
                                                  const float* points, int64_t count, float* back);
/* Finds the points of a model of keypoints in its output `heatmaps`, float32 [N, H, W, L], as Python does (DARK):
 * `points` [N, L, 2] become x y in pixels of the inputs, for paddock_points_back, and `scores` [N, L] the heights of
 * the maps. Since 1.2. */
PADDOCK_EXPORT paddock_status paddock_decode_heatmaps(const paddock_predictor* predictor,
                                                      const paddock_tensor* heatmaps, float* points, float* scores);
/* Classes of the input's pixels [height, width] become those of the picture's own pixels, as many bytes as it has
 * pixels; 255 where the input does not show one. */
PADDOCK_EXPORT paddock_status paddock_labels_back(const paddock_prepared* prepared, int32_t picture,
                                                  const uint8_t* labels, int32_t height, int32_t width, uint8_t* back);
/* Masks [count, size, size] over boxes of the picture (what paddock_boxes_back gave) become bitmaps [count, picture's
 * height, width], 1 where the interpolated mask is `threshold` or more; Python's is 0.5. */
PADDOCK_EXPORT paddock_status paddock_masks_back(const paddock_prepared* prepared, int32_t picture, const float* masks,
                                                 int64_t count, int32_t size, const float* boxes, double threshold,
                                                 uint8_t* bitmaps);

/* -- Texts: tokens as Python's tokenizers cut them. WordPiece (BERT's, ERNIE's), byte-level pairs (RoBERTa's, GPT-2's,
 * GPT-4's, Llama 3's, Qwen 2's), Unigram, whole words and characters, with the full tables of Unicode;
 * PADDOCK_NOT_SUPPORTED, with its name, for a part of a tokenizer that is not done here. Texts are UTF-8. */

typedef struct paddock_text {
  uint32_t struct_size; /* sizeof(paddock_text) */
  int32_t reserved;     /* 0 */
  const char* text;
  uint64_t bytes;
  const char* second; /* the other text of a pair; null where the model takes single ones */
  uint64_t second_bytes;
} paddock_text;

/* Joins and cuts texts to the inputs of a classifier, in one ragged batch; paddock_prepared_input gives them. */
PADDOCK_EXPORT paddock_status paddock_prepare_texts(paddock_predictor* predictor, const paddock_text* texts,
                                                    int32_t count, paddock_prepared** prepared);

/* A tokenizer may be used by several threads at once. */
typedef struct paddock_tokenizer paddock_tokenizer;
/* That of an export. */
PADDOCK_EXPORT paddock_status paddock_tokenizer_of(paddock_predictor* predictor, paddock_tokenizer** tokenizer);
/* That of a tokenizer.json; `options` may be null. */
PADDOCK_EXPORT paddock_status paddock_tokenizer_load(const char* file, const paddock_options* options,
                                                     paddock_tokenizer** tokenizer);
PADDOCK_EXPORT void paddock_tokenizer_free(paddock_tokenizer* tokenizer);
/* Writes the numbers of a text's tokens, without those that stand around texts, up to `room` of them; `count` becomes
 * how many there are. */
PADDOCK_EXPORT paddock_status paddock_encode(const paddock_tokenizer* tokenizer, const char* text, uint64_t bytes,
                                             int64_t* ids, uint64_t room, uint64_t* count);
/* The number of a token such as "[CLS]"; -1 where there is none. */
PADDOCK_EXPORT int64_t paddock_token_number(const paddock_tokenizer* tokenizer, const char* token);

/* -- Rows of click logs: cells become the signs of a model's features, as Python's reader has them, and these the rows
 * of its table, which lie beside the export (docs/howto/ctr.md). Rows are those that were valid when the first row was
 * prepared; load the model again for newer ones. Since 1.2. */

/* How many columns a row has; 0 where the model reads no such rows. Their names are metadata:
 * paddock_metadata_at(model, "/processor/reader/columns/0", &name). */
PADDOCK_EXPORT int32_t paddock_column_count(const paddock_predictor* predictor);
/* Prepares `rows` rows of `columns` cells each, row by row: `bytes` has the length of each, or is null where texts end
 * with a zero. A null or empty cell is a missing value. */
PADDOCK_EXPORT paddock_status paddock_prepare_rows(paddock_predictor* predictor, const char* const* cells,
                                                   const uint64_t* bytes, int32_t rows, int32_t columns,
                                                   paddock_prepared** prepared);

/* Prepares lines of a slot log, such as `label slot:sign slot:sign ...`, for a model whose log is one: each as the log
 * has it, with its head, and without the end of a line. `bytes` as above. Since 1.2. */
PADDOCK_EXPORT paddock_status paddock_prepare_lines(paddock_predictor* predictor, const char* const* lines,
                                                    const uint64_t* bytes, int32_t count, paddock_prepared** prepared);

/* Where the memory goes, as JSON: of the shapes that ran last. Lives until the next call of it. */
PADDOCK_EXPORT paddock_status paddock_memory_report(paddock_predictor* predictor, const char** json);
/* Records the runs from here on (1), or no longer (0). */
PADDOCK_EXPORT paddock_status paddock_set_profiling(paddock_predictor* predictor, int32_t on);
/* The records so far, which are given away, as a JSON list: operator, line of source, implementation, microseconds.
 * Lives until the next call of it. */
PADDOCK_EXPORT paddock_status paddock_profile(paddock_predictor* predictor, const char** json);

#ifdef __cplusplus
}
#endif

#endif
