// P2: two loops over one signature. `POST /ours` and `POST /bare` take {policy, jwks, token, now, count} and answer when the loop is over.
import { initSync, verify_many } from "./glue.js";
import module from "./glue_bg.wasm";

initSync({ module });

// As in the deployed worker's entry module.
const settled = Promise.resolve();
globalThis.queueMicrotask = (step) => {
  settled.then(step);
};

const RS256 = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };
const octets = (base64url) => Uint8Array.from(atob(base64url.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));

async function bare({ jwks, token, count }) {
  const [head, payload, signature] = token.split(".");
  const { kid } = JSON.parse(atob(head));
  const { kty, n, e } = JSON.parse(jwks).keys.find((key) => key.kid === kid);
  const key = await crypto.subtle.importKey("jwk", { kty, n, e }, RS256, false, ["verify"]);
  const [signed, message] = [octets(signature), new TextEncoder().encode(`${head}.${payload}`)];
  for (let at = 0; at < count; at++) {
    if (!(await crypto.subtle.verify(RS256, key, signed, message))) {
      throw new Error("not valid");
    }
  }
}

const ours = ({ policy, jwks, token, now, count }) => verify_many(policy, jwks, token, now, count);

export default {
  async fetch(request) {
    const task = await request.json();
    await (new URL(request.url).pathname === "/ours" ? ours(task) : bare(task));
    return new Response("done");
  },
};
