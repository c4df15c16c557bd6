// Links hold the whole state in their fragment: #s=base64url(deflate-raw(JSON)).

const limit = 1 << 20; // bytes of JSON, the limit of virtwright explain --link too

// encode returns the fragment of a state, without #. It throws an Error if decode would reject it.
export async function encode(state) {
  const text = new Blob([JSON.stringify(state)]);
  if (text.size > limit) throw new Error("the texts are larger than 1 MB");
  const packed = text.stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(packed).arrayBuffer());
  let binary = "";
  for (let i = 0; i < bytes.length; i += 8192) binary += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return "s=" + btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

// decode returns the state of a fragment; undefined if it has none. It throws an Error whose
// message is shown to users.
export async function decode(fragment) {
  const [, text] = /^#?s=(.*)$/s.exec(fragment) ?? [];
  if (text === undefined) return undefined;
  let state;
  try {
    const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    state = JSON.parse(await unpack(Uint8Array.from(binary, (c) => c.charCodeAt(0))));
  } catch (error) {
    throw new Error(error instanceof RangeError ? error.message : "it is damaged or incomplete");
  }
  if (typeof state?.vm !== "string" || typeof state?.presets !== "string") throw new Error("it is from another page");
  return { vm: state.vm, presets: state.presets, mode: state.mode === "addon" ? "addon" : "standalone" };
}

async function unpack(bytes) {
  // Browsers decompress a chunk at once. Small chunks stop a decompression bomb early.
  let at = 0;
  const packed = new ReadableStream({
    pull(controller) {
      if (at < bytes.length) controller.enqueue(bytes.subarray(at, (at += 1024)));
      else controller.close();
    },
  });
  const reader = packed.pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  const unpacked = [];
  for (let size = 0; ; ) {
    const { done, value } = await reader.read();
    if (done) return new Blob(unpacked).text();
    size += value.length;
    if (size > limit) {
      await reader.cancel();
      throw new RangeError("it holds more than 1 MB");
    }
    unpacked.push(value);
  }
}
