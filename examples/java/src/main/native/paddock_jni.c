/* The native half of paddock.Predictor, over paddock.h. What the library refuses is an IllegalStateException. */
#include <jni.h>
#include <paddock.h>
#include <stdlib.h>
#include <string.h>

#include "paddock_Predictor.h"

static paddock_predictor* model_of(jlong handle) { return (paddock_predictor*)(intptr_t)handle; }

static void throw_text(JNIEnv* env, const char* text) {
  jclass kind = (*env)->FindClass(env, "java/lang/IllegalStateException");
  if (kind) (*env)->ThrowNew(env, kind, text);
}

/* Whether it went well; else an exception is on its way. */
static int is_ok(JNIEnv* env, paddock_status status) {
  if (status == PADDOCK_OK) return 1;
  throw_text(env, paddock_last_error());
  return 0;
}

static jbyteArray bytes_of(JNIEnv* env, const void* data, uint64_t count) {
  jbyteArray made;
  if (count > 0x7fffffff) {
    throw_text(env, "a result has more than 2 GB, which no array of Java holds");
    return NULL;
  }
  made = (*env)->NewByteArray(env, (jsize)count);
  if (made && count) (*env)->SetByteArrayRegion(env, made, 0, (jsize)count, data);
  return made;
}

static int output_of(JNIEnv* env, jlong handle, jint index, paddock_tensor* output) {
  memset(output, 0, sizeof *output);
  output->struct_size = sizeof *output;
  return is_ok(env, paddock_output(model_of(handle), index, output));
}

/* One input; 0 where Java has thrown or the arrays do not fit. */
static int fill_input(JNIEnv* env, jint type, jobjectArray shapes, jobjectArray data, jsize i, paddock_tensor* input) {
  jlongArray shape = (*env)->GetObjectArrayElement(env, shapes, i);
  jobject buffer = (*env)->GetObjectArrayElement(env, data, i);
  jlong extents[PADDOCK_MAX_RANK];
  jsize rank = shape ? (*env)->GetArrayLength(env, shape) : PADDOCK_MAX_RANK + 1;
  if (rank > PADDOCK_MAX_RANK || !buffer) {
    throw_text(env, "an input has no shape, more than 8 axes, or no data");
    return 0;
  }
  (*env)->GetLongArrayRegion(env, shape, 0, rank, extents);
  memset(input, 0, sizeof *input);
  input->struct_size = sizeof *input;
  input->type = type;
  input->rank = rank;
  for (jsize axis = 0; axis < rank; ++axis) input->shape[axis] = extents[axis];
  input->data = (*env)->GetDirectBufferAddress(env, buffer);
  input->bytes = (uint64_t)(*env)->GetDirectBufferCapacity(env, buffer);
  (*env)->DeleteLocalRef(env, shape);
  (*env)->DeleteLocalRef(env, buffer);
  return !(*env)->ExceptionCheck(env);
}

JNIEXPORT jlong JNICALL Java_paddock_Predictor_load(JNIEnv* env, jclass self, jbyteArray folder) {
  jsize count = (*env)->GetArrayLength(env, folder);
  char* path = calloc((size_t)count + 1, 1);
  paddock_predictor* made = NULL;
  (void)self;
  if (!path) {
    throw_text(env, "no memory is left");
    return 0;
  }
  (*env)->GetByteArrayRegion(env, folder, 0, count, (jbyte*)path);
  is_ok(env, paddock_load(path, NULL, &made));
  free(path);
  return (jlong)(intptr_t)made;
}

JNIEXPORT void JNICALL Java_paddock_Predictor_free(JNIEnv* env, jclass self, jlong handle) {
  (void)env;
  (void)self;
  paddock_free(model_of(handle));
}

JNIEXPORT jbyteArray JNICALL Java_paddock_Predictor_metadata(JNIEnv* env, jclass self, jlong handle) {
  const char* text = paddock_metadata(model_of(handle));
  (void)self;
  return bytes_of(env, text, strlen(text));
}

JNIEXPORT void JNICALL Java_paddock_Predictor_run(JNIEnv* env, jclass self, jlong handle, jintArray types,
                                                  jobjectArray shapes, jobjectArray data) {
  jsize count = (*env)->GetArrayLength(env, types), i;
  paddock_tensor* inputs = calloc((size_t)count + 1, sizeof *inputs);
  jint* kinds = (*env)->GetIntArrayElements(env, types, NULL);
  (void)self;
  if (inputs && kinds) {
    for (i = 0; i < count && fill_input(env, kinds[i], shapes, data, i, &inputs[i]); ++i) {
    }
    if (i == count) is_ok(env, paddock_run(model_of(handle), inputs, count));
  } else if (!(*env)->ExceptionCheck(env)) {
    throw_text(env, "no memory is left");
  }
  if (kinds) (*env)->ReleaseIntArrayElements(env, types, kinds, JNI_ABORT);
  free(inputs);
}

JNIEXPORT jint JNICALL Java_paddock_Predictor_outputs(JNIEnv* env, jclass self, jlong handle) {
  (void)env;
  (void)self;
  return paddock_output_count(model_of(handle));
}

JNIEXPORT jint JNICALL Java_paddock_Predictor_outputType(JNIEnv* env, jclass self, jlong handle, jint index) {
  paddock_tensor output;
  (void)self;
  return output_of(env, handle, index, &output) ? output.type : -1;
}

JNIEXPORT jlongArray JNICALL Java_paddock_Predictor_outputShape(JNIEnv* env, jclass self, jlong handle, jint index) {
  paddock_tensor output;
  jlong extents[PADDOCK_MAX_RANK];
  jlongArray made;
  (void)self;
  if (!output_of(env, handle, index, &output)) return NULL;
  for (int axis = 0; axis < output.rank; ++axis) extents[axis] = output.shape[axis];
  made = (*env)->NewLongArray(env, output.rank);
  if (made) (*env)->SetLongArrayRegion(env, made, 0, output.rank, extents);
  return made;
}

JNIEXPORT jbyteArray JNICALL Java_paddock_Predictor_outputData(JNIEnv* env, jclass self, jlong handle, jint index) {
  paddock_tensor output;
  (void)self;
  return output_of(env, handle, index, &output) ? bytes_of(env, output.data, output.bytes) : NULL;
}
