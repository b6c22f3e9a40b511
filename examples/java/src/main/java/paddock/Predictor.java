package paddock;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/**
 * An exported model, run by libpaddock through JNI. See docs/howto/native.md for how to build it.
 *
 * <pre>{@code
 * try (Predictor model = new Predictor("exported")) {
 *   float[] scores = model.run(Predictor.Tensor.of(pixels, 1, 96, 96, 3))[0].floats();
 * }
 * }</pre>
 *
 * One thread at a time uses it; others wait.
 */
public final class Predictor implements AutoCloseable {
  static {
    System.loadLibrary("paddock_jni");
  }

  /** Types of elements, as paddock.h numbers them. */
  public static final int FLOAT32 = 0, UINT8 = 5, INT32 = 6, INT64 = 7;

  /** A dense row-major tensor; `data` is a direct buffer in the machine's byte order. */
  public record Tensor(int type, long[] shape, ByteBuffer data) {
    /** A float32 tensor with a copy of the values. */
    public static Tensor of(float[] values, long... shape) {
      ByteBuffer data = memory(4L * values.length);
      data.asFloatBuffer().put(values);
      return new Tensor(FLOAT32, shape, data);
    }

    /** An int64 tensor with a copy of the values. */
    public static Tensor of(long[] values, long... shape) {
      ByteBuffer data = memory(8L * values.length);
      data.asLongBuffer().put(values);
      return new Tensor(INT64, shape, data);
    }

    /** The elements of a float32 tensor. */
    public float[] floats() {
      if (type != FLOAT32) throw new IllegalStateException("the tensor is of type " + type + ", not float32");
      float[] values = new float[data.capacity() / 4];
      data.asFloatBuffer().get(values);
      return values;
    }

    private static ByteBuffer memory(long bytes) {
      return ByteBuffer.allocateDirect(Math.toIntExact(bytes)).order(ByteOrder.nativeOrder());
    }
  }

  private long handle;

  /** Loads the folder that `paddock export` wrote; IllegalStateException where it cannot be read. */
  public Predictor(String folder) {
    handle = load(bytes(folder));
  }

  /** Runs once; the results are copies. IllegalStateException says what does not fit. */
  public synchronized Tensor[] run(Tensor... inputs) {
    int[] types = new int[inputs.length];
    long[][] shapes = new long[inputs.length][];
    ByteBuffer[] data = new ByteBuffer[inputs.length];
    for (int i = 0; i < inputs.length; ++i) {
      types[i] = inputs[i].type();
      shapes[i] = inputs[i].shape();
      data[i] = inputs[i].data();
      if (!data[i].isDirect()) throw new IllegalStateException("input " + i + " is no direct buffer");
    }
    run(open(), types, shapes, data);
    Tensor[] outputs = new Tensor[outputs(open())];
    for (int i = 0; i < outputs.length; ++i) {
      byte[] copy = outputData(open(), i);
      ByteBuffer memory = Tensor.memory(copy.length);
      memory.duplicate().put(copy);
      outputs[i] = new Tensor(outputType(open(), i), outputShape(open(), i), memory);
    }
    return outputs;
  }

  /** What the exporter stored beside the network, as JSON. */
  public synchronized String metadata() {
    return new String(metadata(open()), StandardCharsets.UTF_8);
  }

  @Override
  public synchronized void close() {
    free(handle);
    handle = 0;
  }

  private long open() {
    if (handle == 0) throw new IllegalStateException("the predictor is closed");
    return handle;
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static native long load(byte[] folder);

  private static native void free(long handle);

  private static native byte[] metadata(long handle);

  private static native void run(long handle, int[] types, long[][] shapes, ByteBuffer[] data);

  private static native int outputs(long handle);

  private static native int outputType(long handle, int index);

  private static native long[] outputShape(long handle, int index);

  private static native byte[] outputData(long handle, int index);

  /** Runs an export of one float32 input on a ramp and prints what it gives: `java paddock.Predictor EXPORT EXTENT...`. */
  public static void main(String[] words) {
    long[] shape = new long[words.length - 1];
    int size = 1;
    for (int i = 0; i < shape.length; ++i) size *= (int) (shape[i] = Long.parseLong(words[i + 1]));
    float[] ramp = new float[size];
    for (int i = 0; i < size; ++i) ramp[i] = (i % 7) / 7f;
    try (Predictor model = new Predictor(words[0])) {
      for (Tensor output : model.run(Tensor.of(ramp, shape)))
        for (float value : output.floats()) System.out.println(value);
      System.out.println(model.metadata());
    }
  }
}
