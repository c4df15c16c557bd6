// The worker runs the engine, so that the page stays responsive.
//
// To the worker: {module} starts it, where module may be missing; {id, input} evaluates. From the
// worker: {loaded, total} while the engine loads, {ready, module, version}, {id, output}, {failed}.

import "./wasm_exec.js";

onmessage = async ({ data }) => {
  try {
    if ("id" in data) {
      postMessage({ id: data.id, output: JSON.parse(await globalThis.virtwright.evaluate(JSON.stringify(data.input))) });
    } else {
      await start(data.module);
    }
  } catch (error) {
    postMessage({ failed: String(error?.message ?? error) });
  }
};

async function start(module) {
  module ??= await WebAssembly.compileStreaming(new Response(await unpacked(), { headers: { "Content-Type": "application/wasm" } }));
  const go = new Go();
  const ended = go.run(await WebAssembly.instantiate(module, go.importObject));
  ended.then(() => postMessage({ failed: "the engine ended" }), (error) => postMessage({ failed: String(error) }));
  for (let tries = 0; !globalThis.virtwright; tries++) {
    if (tries > 1000) throw new Error("the engine does not answer");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  // The first evaluation prepares data for later ones.
  await globalThis.virtwright.evaluate(JSON.stringify({ vm: "", presets: "", mode: "standalone" }));
  postMessage({ ready: true, module, version: globalThis.virtwright.version });
}

// unpacked returns the bytes of the engine. Some servers declare .gz files as an encoding, and the
// browser then decompresses them. So the first bytes tell whether they are compressed.
async function unpacked() {
  const response = await fetch(new URL("engine.wasm.gz", import.meta.url));
  if (!response.ok) throw new Error(`cannot load engine.wasm.gz: ${response.status} ${response.statusText}`);
  const total = response.headers.has("Content-Encoding") ? 0 : Number(response.headers.get("Content-Length"));
  const reader = response.body.getReader();
  const first = await reader.read();
  let loaded = 0;
  const count = (chunk) => {
    loaded += chunk.length;
    postMessage({ loaded, total });
    return chunk;
  };
  const stream = new ReadableStream({
    start: (controller) => (first.done ? controller.close() : controller.enqueue(count(first.value))),
    async pull(controller) {
      const { done, value } = await reader.read();
      if (done) controller.close();
      else controller.enqueue(count(value));
    },
  });
  const packed = first.value?.[0] === 0x1f && first.value?.[1] === 0x8b;
  return packed ? stream.pipeThrough(new DecompressionStream("gzip")) : stream;
}
