// Wraps our bundle to count what an operator pays for: calls of objects, statements, rows. For figures without a clock only.
import * as ours from "OURS";

const counts = { object_calls: 0, statements: 0, rows_read: 0, rows_written: 0 };
/** Cursors whose rows are still being read. */
let open = [];

function settle() {
  for (const cursor of open) {
    counts.rows_read += cursor.rowsRead;
    counts.rows_written += cursor.rowsWritten;
  }
  open = [];
}

/** Once per isolate: every object's storage has the same methods. */
function watch(sql) {
  const methods = Object.getPrototypeOf(sql);
  if (!methods.isWatched) {
    const { exec } = methods;
    Object.defineProperty(methods, "isWatched", { value: true });
    methods.exec = function (...statement) {
      const cursor = exec.apply(this, statement);
      counts.statements += 1;
      open.push(cursor);
      return cursor;
    };
  }
}

function wrapped(Original) {
  class Counting extends Original {
    constructor(ctx, env) {
      watch(ctx.storage.sql);
      super(ctx, env);
    }
  }
  for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(Original.prototype))) {
    if (typeof value === "function" && name !== "constructor" && name !== "alarm") {
      Counting.prototype[name] = function (...call) {
        counts.object_calls += 1;
        return value.apply(this, call);
      };
    }
  }
  return Counting;
}

// CLASSES

export default {
  fetch(request, env, ctx) {
    if (new URL(request.url).pathname === "/counts") {
      settle();
      return Response.json(counts);
    }
    const entry = ours.default;
    return typeof entry === "function" ? new entry(ctx, env).fetch(request) : entry.fetch(request, env, ctx);
  },
};
