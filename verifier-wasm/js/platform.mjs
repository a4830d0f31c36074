// What Rust asks of the platform and has to wait for, each of it one promise. The waits within stand here because JavaScript needs a tenth
// of the octets for them that wasm does (docs/performance.md). Nothing is decided here: what is wanted comes from Rust, and what came of it
// goes back.

/** What `promise` gives, or `undefined` when it takes longer than `limit`, milliseconds. */
export async function within(limit, promise) {
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, limit);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The octets of a stream, `undefined` when there are more than `max`. Rejects where it is cut off. */
async function read(stream, max) {
  const chunks = [];
  let length = 0;
  for await (const chunk of stream?.values({ preventCancel: true }) ?? []) {
    length += chunk.length;
    if (length > max) {
      // Nobody waits for it: it has nothing to say any more.
      stream.cancel().catch(() => {});
      return undefined;
    }
    chunks.push(chunk);
  }
  const octets = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    octets.set(chunk, at);
    at += chunk.length;
  }
  return octets;
}

/** The same of a request; one that says its length is read in one piece. */
export async function body(request, max) {
  const length = request.headers.get("content-length");
  if (!/^\d+$/.test(length ?? "")) {
    return read(request.body, max);
  }
  if (Number(length) > max) {
    return undefined;
  }
  const octets = new Uint8Array(await request.arrayBuffer());
  return octets.length > max ? undefined : octets;
}

/**
 * One exchange by HTTP within `limit` milliseconds, no redirect followed: `[status, content-type, cache-control, octets]`, or what was in its
 * way: `connect`, `cut`, `timeout`. A POST where there is content.
 */
export async function exchange(url, headers, content, limit, max) {
  const abort = new AbortController();
  let fault = "connect";
  const exchanged = async () => {
    try {
      const method = content === undefined ? "GET" : "POST";
      // `redirect: "error"` fails at construction on workerd: manual, and the caller takes only the statuses it wants.
      const init = { method, headers, body: content, redirect: "manual", signal: abort.signal };
      const answer = await fetch(url, init);
      fault = "cut";
      const header = (name) => answer.headers.get(name) ?? undefined;
      return [answer.status, header("content-type"), header("cache-control"), await read(answer.body, max)];
    } catch {
      return fault;
    }
  };
  const outcome = await within(limit, exchanged());
  if (outcome === undefined) {
    abort.abort();
    return "timeout";
  }
  return outcome;
}

/** What an object of the binding answers to `call`, by RPC; `undefined` when it takes longer than `limit`, milliseconds. */
export function decide(env, binding, name, call, limit) {
  // A copy, since what lies in wasm's memory would cross with all of that.
  return within(limit, env[binding].getByName(name).decide(call.slice()));
}

/** What the data centre's cache has under a URL: `[octets, fetched at, fresh for]` as they were put. */
export async function cached(url) {
  const kept = await caches.default.match(url);
  return kept && [new Uint8Array(await kept.arrayBuffer()), kept.headers.get("x-fetched-at"), kept.headers.get("x-fresh-for")];
}

/** Puts octets into it for `maxAge` seconds. */
export function cache(url, octets, fetchedAt, freshFor, maxAge) {
  const headers = { "cache-control": `max-age=${maxAge}`, "x-fetched-at": fetchedAt, "x-fresh-for": freshFor };
  // A copy, since the cache reads them later, when something else may lie there.
  return caches.default.put(url, new Response(octets.slice(), { headers }));
}

/** Whether a rate limit lets `key` pass; so does one that is not bound. */
export async function allows(env, binding, key) {
  const limiter = env[binding];
  return limiter === undefined || (await limiter.limit({ key })).success;
}
