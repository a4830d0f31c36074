// The peer of `cargo xtask bench`: the worker that people would write instead of ours, for gke-oidc.
//
// The same routes, checks, statements, answers and log lines; tokens by `jose`, certificates by `@peculiar/x509`, both used as their documentation
// advises: key sets, imported keys, parsed policy and the CA are kept by the isolate, the object is called by RPC.
import { authorize } from "./access.js";
import { Authority, readCsr } from "./certificates.js";
import { compile } from "./policy.js";
import { Refusal } from "./refusal.js";
import { verifyToken } from "./tokens.js";

export { Tenant } from "./tenant.js";

const MAX_BODY = 64 * 1024;

/** Policy and CA of this isolate: promises of data, never of one request's I/O. */
let ready;

async function load(env) {
  return { policy: compile(JSON.parse(env.POLICY)), authority: await Authority.load(env) };
}

async function readBody(request) {
  if (!/^application\/json\s*(;|$)/i.test(request.headers.get("content-type") ?? "")) {
    throw new Refusal(415, "unsupported_media_type");
  }
  if (Number(request.headers.get("content-length")) > MAX_BODY) {
    throw new Refusal(413, "payload_too_large");
  }
  const text = await request.text();
  if (text.length > MAX_BODY) {
    throw new Refusal(413, "payload_too_large");
  }
  try {
    return JSON.parse(text);
  } catch {
    throw new Refusal(400, "malformed_request");
  }
}

/** Body fields that the routes share. */
function evidenceOf(body, known) {
  const { attestation } = body;
  const fits =
    Object.keys(body).every((name) => known.includes(name)) &&
    attestation?.mode === "gke-oidc" &&
    typeof attestation.token === "string" &&
    attestation.token.length <= 16 * 1024;
  if (!fits) {
    throw new Refusal(400, "malformed_request");
  }
  return attestation;
}

/** Token, mapping, and what the object is asked. */
async function appraise({ policy, authority }, attestation, spkiSha256, call) {
  const proven = await verifyToken(attestation.token, policy, call.now, call.trace);
  const tenant = policy.tenantOf(proven.principal);
  if (tenant === undefined) {
    throw new Refusal(403, "identity_not_mapped");
  }
  call.trace?.push(["M1", "mapping to a tenant", `rules of tenant ${tenant}`, proven.identity]);
  Object.assign(call.subject, { tenant, identity: proven.identity });
  return {
    tenant,
    principal: proven.principal,
    identity: proven.identity,
    digest: proven.digest,
    until: proven.until,
    spki_sha256: spkiSha256,
    id: await runnerId(tenant, proven.principal.mode, proven.identity, spkiSha256),
    terms: { ...policy.terms, issuer_not_after: authority.notAfter },
    request_id: call.requestId,
  };
}

const BASE32 = "abcdefghijklmnopqrstuvwxyz234567";
const encoder = new TextEncoder();

async function runnerId(tenant, mode, identity, spkiSha256) {
  const head = encoder.encode(`rootpilot-runner-v1\0${tenant}\0${mode}\0${identity}\0`);
  const input = new Uint8Array(head.length + 32);
  input.set(head);
  for (let at = 0; at < 32; at++) {
    input[head.length + at] = Number.parseInt(spkiSha256.slice(at * 2, at * 2 + 2), 16);
  }
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", input));
  let [id, value, bits] = ["", 0, 0];
  for (let at = 0; id.length < 26; at++) {
    value = ((value << 8) | hash[at]) & 0xfff;
    for (bits += 8; bits >= 5 && id.length < 26; bits -= 5) {
      id += BASE32[(value >> (bits - 5)) & 31];
    }
  }
  return id;
}

async function enroll(request, env, call) {
  const configured = await ready;
  const body = await readBody(request);
  const attestation = evidenceOf(body, ["csr", "attestation"]);
  const csr = await readCsr(body.csr);
  const command = await appraise(configured, attestation, csr.spkiSha256, call);
  const { allotment, refusal } = await env.TENANT.getByName(command.tenant).enroll(command);
  if (refusal) {
    throw new Refusal(refusal.status, refusal.code);
  }
  call.subject.runner_id = allotment.runner_id;
  return configured.authority.answer(allotment, csr, configured.policy, call.now);
}

async function verify(request, env, call) {
  await authorize(request, env.SERVICE_TOKEN_SHA256);
  const configured = await ready;
  const body = await readBody(request);
  const attestation = evidenceOf(body, ["attestation", "spki_sha256", "consume"]);
  if (body.consume !== false || typeof body.spki_sha256 !== "string") {
    throw new Refusal(400, "malformed_request");
  }
  call.trace = [];
  const command = await appraise(configured, attestation, hexOf(body.spki_sha256), call);
  // TOKEN_ALONE: the extra row of the bench, a peer that leaves replay and ban unread.
  const { refusal } = env.TOKEN_ALONE ? {} : await env.TENANT.getByName(command.tenant).verify(command);
  if (refusal) {
    throw new Refusal(refusal.status, refusal.code);
  }
  for (const [check, name] of [["K7", "replay"], ["M2", "ban and state"]]) {
    call.trace.push([check, name, "no objection in the tenant's record", "none"]);
  }
  return {
    decision: "allow",
    code: null,
    reason: null,
    mode: command.principal.mode,
    identity: command.identity,
    instance: command.principal.pod_uid,
    tenant: command.tenant,
    consumed: false,
    trace: call.trace.map(([check, name, expected, actual]) => ({ check, name, outcome: "pass", expected, actual })),
  };
}

function hexOf(base64url) {
  const octets = atob(base64url.replaceAll("-", "+").replaceAll("_", "/"));
  if (octets.length !== 32) {
    throw new Refusal(400, "malformed_request");
  }
  let hex = "";
  for (let at = 0; at < 32; at++) {
    hex += octets.charCodeAt(at).toString(16).padStart(2, "0");
  }
  return hex;
}

async function health() {
  await ready;
  return { status: "ok", version: "1" };
}

const ROUTES = {
  "GET /healthz": health,
  "POST /v1/enroll": enroll,
  "POST /v1/verify": verify,
};

export default {
  async fetch(request, env) {
    ready ??= load(env);
    const call = { requestId: crypto.randomUUID(), now: Math.floor(Date.now() / 1000), subject: {}, trace: null };
    const path = new URL(request.url).pathname;
    const route = ROUTES[`${request.method} ${path}`];
    let [status, answer] = [200, undefined];
    try {
      if (route === undefined) {
        throw new Refusal(404, "not_found");
      }
      answer = await route(request, env, call);
    } catch (error) {
      const refusal = Refusal.of(error);
      status = refusal.status;
      answer = { type: "about:blank", title: refusal.code, status, code: refusal.code, request_id: call.requestId };
    }
    if (request.method === "POST") {
      const time = new Date(call.now * 1000).toISOString();
      const line = { time, event: path, request_id: call.requestId, status, mode: "gke-oidc", ...call.subject };
      console.log(JSON.stringify(line));
    }
    const type = status === 200 ? "application/json" : "application/problem+json";
    const headers = { "content-type": type, "cache-control": "no-store", "x-request-id": call.requestId };
    return new Response(JSON.stringify(answer), { status, headers });
  },
};
