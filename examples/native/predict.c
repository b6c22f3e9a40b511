/* Runs an exported model on raw tensors, in C99:
 *
 *   export PKG_CONFIG_PATH=$(python -m framework.extend --pkg-config)
 *   cc -std=c99 predict.c -o predict $(pkg-config --cflags --libs paddock)
 *   ./predict exported/ input0.bin input1.bin ...
 *
 * Each file holds one input's elements in the shape that the model was exported with. Writes output0.bin, output1.bin,
 * ...
 */
#include <paddock.h>
#include <stdio.h>
#include <stdlib.h>

static void expect(paddock_status status) {
  if (status == PADDOCK_OK) return;
  fprintf(stderr, "predict: %s\n", paddock_last_error());
  exit(1);
}

/* An input in the shape that it was exported with, with the elements of the file. */
static paddock_tensor read_input(const paddock_predictor* model, int32_t index, const char* file) {
  paddock_info info = {sizeof info, 0, 0, 0, {0}, 0};
  paddock_tensor t = {sizeof t, 0, 0, 0, {0}, 0, 0};
  FILE* f = fopen(file, "rb");
  void* data;
  expect(paddock_input_info(model, index, &info));
  t.type = info.type;
  t.rank = info.rank;
  t.bytes = paddock_type_size(info.type);
  for (int32_t i = 0; i < info.rank; ++i) t.bytes *= (uint64_t)(t.shape[i] = info.shape[i]);
  data = malloc(t.bytes ? t.bytes : 1);
  if (!f || !data || fread(data, 1, t.bytes, f) != t.bytes) {
    fprintf(stderr, "predict: %s: cannot be read, or has not the %llu bytes of input '%s'\n", file,
            (unsigned long long)t.bytes, info.name);
    exit(1);
  }
  fclose(f);
  t.data = data;
  return t;
}

static void write_output(paddock_predictor* model, int32_t index) {
  paddock_tensor t = {sizeof t, 0, 0, 0, {0}, 0, 0};
  char name[32];
  FILE* f;
  expect(paddock_output(model, index, &t));
  snprintf(name, sizeof name, "output%d.bin", (int)index);
  f = fopen(name, "wb");
  if (!f || fwrite(t.data, 1, t.bytes, f) != t.bytes || fclose(f) != 0) {
    fprintf(stderr, "predict: %s: cannot be written\n", name);
    exit(1);
  }
  printf("%s: %s [", name, paddock_type_name(t.type));
  for (int32_t i = 0; i < t.rank; ++i) printf("%s%lld", i ? ", " : "", (long long)t.shape[i]);
  printf("]\n");
}

int main(int argc, char** argv) {
  paddock_predictor* model = NULL;
  paddock_tensor* inputs;
  int32_t count = argc - 2;
  if (argc < 2) {
    fprintf(stderr, "usage: predict EXPORT INPUT...\n");
    return 2;
  }
  expect(paddock_load(argv[1], NULL, &model));
  if (count != paddock_input_count(model)) {
    fprintf(stderr, "predict: the model takes %d inputs\n", (int)paddock_input_count(model));
    return 2;
  }
  inputs = calloc((size_t)count + 1, sizeof *inputs);
  if (!inputs) return 1;
  for (int32_t i = 0; i < count; ++i) inputs[i] = read_input(model, i, argv[i + 2]);
  expect(paddock_run(model, inputs, count));
  for (int32_t i = 0; i < paddock_output_count(model); ++i) write_output(model, i);
  for (int32_t i = 0; i < count; ++i) free((void*)inputs[i].data);
  free(inputs);
  paddock_free(model);
  return 0;
}
