// The bundle with a way to ask how much memory its wasm module has, which workerd's inspector does not tell: `GET /wasm-memory`, octets.
// Served in the place of index.js, never deployed.
let memory;

const { Instance } = WebAssembly;

WebAssembly.Instance = class extends Instance {
  constructor(...given) {
    super(...given);
    ({ memory } = this.exports);
  }
};

const bundle = await import("./index.js");

export const { Policy, Revocation, Tenant } = bundle;

export default {
  fetch(request, ...rest) {
    const asked = new URL(request.url).pathname === "/wasm-memory";
    return asked ? new Response(memory.buffer.byteLength) : bundle.default.fetch(request, ...rest);
  },
};
