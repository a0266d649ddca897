/** Lines of usage logs for tests. */

import { type LogLine, parseLine } from '../../src/replay/line.ts'
import type { ReadLine } from '../../src/replay/read.ts'

let count = 0

/** A line as the plugin writes it: answered, account `acme`, model `m`, with these changes. */
export function lineWith(changes: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return {
    v: 1,
    id: `req_${String(++count).padStart(26, '0')}`,
    at: '2026-11-20T08:00:00.000Z',
    ms: 1_000,
    route: '/v1/chat/completions',
    kind: 'chat',
    method: 'POST',
    policy: 'standard',
    account: { id: 'acc_1', name: 'acme', plan: 'default' },
    key: { id: 'key_1', name: 'laptop', models: null },
    model: 'm',
    stream: false,
    outcome: 'answered',
    status: 200,
    code: null,
    decided_by: null,
    trail: [],
    usage: {
      prompt_tokens: 10,
      cached_tokens: 0,
      cache_write_tokens: 0,
      completion_tokens: 20,
      reasoning_tokens: 0,
      source: 'reported',
    },
    held: '0.002076000',
    charged: '0.000050000',
    attempts: [{ target: 'p/up', status: 200, code: null, ms: 500 }],
    ...changes,
    request: {
      bytes: 60,
      model: 'm',
      n: null,
      cap: null,
      params: ['model', 'messages'],
      messages: 1,
      tools: 0,
      unsized: false,
      ...(changes['request'] as object | undefined),
    },
  }
}

/** A line of a request that a step refused. */
export function refusedLine(status: number, code: string, by: string, changes: object = {}): Record<string, unknown> {
  const nothing = { usage: null, held: null, charged: null, attempts: [], ms: 1 }
  return lineWith({ outcome: 'refused', status, code, decided_by: by, ...nothing, ...changes })
}

/** The time `ms` milliseconds after 2026-11-20T08:00Z. */
export function at(ms: number): { readonly at: string } {
  return { at: new Date(Date.UTC(2026, 10, 20, 8) + ms).toISOString() }
}

/** One batch of parsed lines, in the order in which their exchanges ended. */
export async function* batchesOf(lines: readonly object[]): AsyncGenerator<ReadLine<LogLine>[]> {
  const read = lines.map(line => parseLine(JSON.stringify(line)))
  read.sort((one, other) => one.at + one.ms - other.at - other.ms)
  yield read.map(line => ({ line, bytes: 500 }))
}
