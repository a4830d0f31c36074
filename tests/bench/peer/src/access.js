import { Refusal } from "./refusal.js";

const encoder = new TextEncoder();

/** SHA-256 in lower-case hex. */
export async function sha256Hex(octets) {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", octets));
  let hex = "";
  for (const octet of hash) {
    hex += HEX[octet];
  }
  return hex;
}

const HEX = Array.from({ length: 256 }, (_, octet) => octet.toString(16).padStart(2, "0"));

/** The bearer against its hash, in constant time. */
export async function authorize(request, wanted) {
  const bearer = /^bearer (.+)$/i.exec(request.headers.get("authorization") ?? "")?.[1];
  if (bearer === undefined) {
    throw new Refusal(401, "unauthorized");
  }
  const hash = await sha256Hex(encoder.encode(bearer));
  const [found, expected] = [encoder.encode(hash), encoder.encode(wanted)];
  if (found.length !== expected.length || !crypto.subtle.timingSafeEqual(found, expected)) {
    throw new Refusal(401, "unauthorized");
  }
}
