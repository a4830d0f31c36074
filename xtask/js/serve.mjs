// Serves the worker bundle in workerd through Miniflare, with the bindings of wrangler.toml.
//
// Why not `wrangler dev`: it builds again, watches, proxies and takes seconds to start. Bare workerd has no rate limits.
//
// The first line of standard input is the configuration, one JSON object:
//   bundle   folder with index.js and index_bg.wasm
//   entry    optional: a module that is served in the place of index.js, which it can import (faults in tests)
//   wrangler path of wrangler.toml
//   state    folder kept between runs
//   port     0 for any free one
//   secrets  optional: the file of the worker's secrets that edgectl writes, name to value
//   vars     optional: variables of the worker; they win
//   cf       optional: request.cf of every request (edge mutual TLS in tests)
//   inspector optional: whether workerd's inspector listens, on loopback
//   outbound optional: stand-ins for hosts of the internet, origin to origin; every other call of the worker then fails
// One JSON line comes back when requests are served: {"url", "pid"}, and "inspector" where asked for. The end of standard input is the order to stop:
// a parent that dies, however it dies, takes workerd with it.
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import http from "node:http";
import path from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare, Response } from "miniflare";
import { parse } from "smol-toml";

/** Plain lines on standard error, the worker's console among them: standard output belongs to the ready line. */
class StderrLog extends Log {
  log(message) {
    process.stderr.write(`${message}\n`);
  }
}

/** Sends what the worker sends to a host to that host's stand-in, `host` header included, which `fetch` would not let through. */
const outbound = (standIns) => async (request) => {
  const url = new URL(request.url);
  const standIn = standIns[url.origin];
  if (standIn === undefined) {
    return new Response(null, { status: 502 });
  }
  const headers = { ...Object.fromEntries(request.headers), host: url.host };
  const call = http.request(new URL(url.pathname + url.search, standIn), { method: request.method, headers });
  call.end(Buffer.from(await request.arrayBuffer()));
  const [answer] = await once(call, "response");
  const { "transfer-encoding": _, ...kept } = answer.headers;
  return new Response(Readable.toWeb(answer), { status: answer.statusCode, headers: kept });
};

const named = (list, make) => Object.fromEntries((list ?? []).map((entry) => [entry.name, make(entry)]));

/** The modules of the worker, the one that is called first. */
async function modules({ bundle, entry }) {
  const instead = entry ? [{ type: "ESModule", path: path.join(bundle, "entry.js"), contents: await readFile(entry, "utf8") }] : [];
  return [
    ...instead,
    { type: "ESModule", path: path.join(bundle, "index.js") },
    { type: "CompiledWasm", path: path.join(bundle, "index_bg.wasm") },
  ];
}

async function options(config, project, secrets) {
  const sqlite = new Set((project.migrations ?? []).flatMap((step) => step.new_sqlite_classes ?? []));
  return convertV4MiniflareOptions({
    name: project.name,
    host: "127.0.0.1",
    port: config.port,
    rootPath: config.bundle,
    modulesRoot: config.bundle,
    modules: await modules(config),
    compatibilityDate: project.compatibility_date,
    compatibilityFlags: project.compatibility_flags ?? [],
    bindings: { ...project.vars, ...secrets, ...config.vars },
    durableObjects: named(project.durable_objects?.bindings, ({ class_name }) => ({
      className: class_name,
      useSQLite: sqlite.has(class_name),
    })),
    ratelimits: named(project.ratelimits, ({ namespace_id, simple }) => ({ namespace_id, simple })),
    resourcePersistencePath: config.state,
    cf: config.cf ?? false,
    ...(config.inspector ? { inspectorPort: 0 } : {}),
    ...(config.outbound ? { outboundService: outbound(config.outbound) } : {}),
    log: new StderrLog(LogLevel.WARN),
    handleStructuredLogs: ({ message }) => process.stderr.write(`${message}\n`),
  });
}

const input = createInterface({ input: process.stdin });
let miniflare;
const stop = async () => {
  await miniflare?.dispose();
  process.exit(0);
};
process.on("SIGTERM", stop);
process.on("SIGINT", stop);

for await (const line of input) {
  const config = JSON.parse(line);
  const project = parse(await readFile(config.wrangler, "utf8"));
  const secrets = config.secrets ? JSON.parse(await readFile(config.secrets, "utf8")) : {};
  miniflare = new Miniflare(await options(config, project, secrets));
  const url = await miniflare.ready;
  const inspector = config.inspector ? (await miniflare.getInspectorURL()).host : undefined;
  process.stdout.write(`${JSON.stringify({ url: url.origin, pid: process.pid, inspector })}\n`);
}
await stop();
