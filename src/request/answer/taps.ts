/**
 * Taps: a step's watches and edits of an answer. A chunk passes the last step's taps first and the first step's last, so that an outer
 * step sees what the client will see.
 */
import type { ChatCompletion, Chunk, EditResult } from '#contract'
import { isPromise } from '../../common/promises.ts'

export type Tap =
  | { readonly step: number; readonly kind: 'watch'; readonly fn: (chunk: Chunk) => void | Promise<void> }
  | { readonly step: number; readonly kind: 'edit'; readonly fn: (chunk: Chunk) => EditResult | Promise<EditResult> }

/** The error of a tap, thrown in the middle of an answer. */
export class TapError extends Error {
  override readonly name = 'TapError'
  readonly step: number

  constructor(step: number, cause: unknown) {
    super(`watch or edit of step ${step} threw`, { cause })
    this.step = step
  }
}

/** Whether no tap edits, so that the bytes can pass unchanged. */
export function onlyWatched(taps: readonly Tap[]): boolean {
  return taps.every(tap => tap.kind === 'watch')
}

/**
 * Sends one chunk through the taps; the result has zero, one or several chunks. It is a promise only if a tap returned one. That promise
 * is awaited before the next tap, and before the next chunk for the same tap.
 */
export function throughTaps(taps: readonly Tap[], chunk: Chunk): readonly Chunk[] | Promise<readonly Chunk[]> {
  let chunks: readonly Chunk[] = [chunk]
  for (let index = taps.length - 1; index >= 0; index--) {
    const out = throughTap(taps[index]!, chunks)
    if (isPromise(out)) return throughTheRest(taps, index, out)
    chunks = out
    if (chunks.length === 0) return chunks
  }
  return chunks
}

async function throughTheRest(
  taps: readonly Tap[],
  index: number,
  first: PromiseLike<readonly Chunk[]>,
): Promise<readonly Chunk[]> {
  let chunks = await first
  for (let at = index - 1; at >= 0 && chunks.length > 0; at--) chunks = await throughTap(taps[at]!, chunks)
  return chunks
}

function throughTap(tap: Tap, chunks: readonly Chunk[]): readonly Chunk[] | Promise<readonly Chunk[]> {
  try {
    // A watch keeps the list: nothing is allocated.
    const out: Chunk[] | null = tap.kind === 'watch' ? null : []
    for (let at = 0; at < chunks.length; at++) {
      const returned: unknown = tap.fn(chunks[at]!)
      if (isPromise(returned)) return throughTapSlowly(tap, chunks, at, out ?? chunks.slice(0, at), returned)
      if (out) take(tap, chunks[at]!, returned, out)
    }
    return out ?? chunks
  } catch (cause) {
    throw new TapError(tap.step, cause)
  }
}

/** @param at the index of the chunk whose result `returned` is pending */
async function throughTapSlowly(
  tap: Tap,
  chunks: readonly Chunk[],
  at: number,
  out: Chunk[],
  returned: PromiseLike<unknown>,
): Promise<readonly Chunk[]> {
  try {
    take(tap, chunks[at]!, await returned, out)
    for (let next = at + 1; next < chunks.length; next++) {
      take(tap, chunks[next]!, await tap.fn(chunks[next]!), out)
    }
    return out
  } catch (cause) {
    throw new TapError(tap.step, cause)
  }
}

function take({ kind }: Tap, chunk: Chunk, returned: unknown, out: Chunk[]): void {
  if (kind === 'watch') out.push(chunk)
  else if (returned !== null) out.push(...chunksFrom(returned as Chunk | readonly Chunk[]))
}

/** The chunks that an edit returned. Plugins may be plain JavaScript: one that forgets to return would silently empty the answer. */
function chunksFrom(returned: Chunk | readonly Chunk[]): readonly Chunk[] {
  const chunks = Array.isArray(returned) ? (returned as readonly Chunk[]) : [returned as Chunk]
  if (!chunks.every(isChunk)) throw new TypeError('an edit must return a chunk, a list of chunks, or null to drop it')
  return chunks
}

function isChunk(value: Chunk | null | undefined): boolean {
  return Array.isArray(value?.choices) && value.choices.every(choice => choice?.delta != null)
}

/**
 * Sends a whole answer through the taps. Each choice is one chunk whose delta is the message itself, so that no field is lost. A choice
 * whose chunk was dropped keeps an empty message. A choice without a finish reason has `stop` for the taps, because it is complete, and
 * taps may wait for the end of a text. The result is a promise only if a tap returned one.
 */
export function completionThroughTaps(
  taps: readonly Tap[],
  completion: ChatCompletion,
): ChatCompletion | Promise<ChatCompletion> {
  if (taps.length === 0) return completion
  const choices: Choice[] = []
  for (const choice of completion.choices) {
    const out = throughTaps(taps, chunkOf(completion, choice))
    if (isPromise(out)) return slowlyThroughTaps(taps, completion, choices, out)
    choices.push(joined(choice, out))
  }
  return { ...completion, choices }
}

/** @param choices the finished ones; `first` belongs to the next one */
async function slowlyThroughTaps(
  taps: readonly Tap[],
  completion: ChatCompletion,
  choices: Choice[],
  first: PromiseLike<readonly Chunk[]>,
): Promise<ChatCompletion> {
  let out = await first
  for (;;) {
    choices.push(joined(completion.choices[choices.length]!, out))
    const next = completion.choices[choices.length]
    if (!next) return { ...completion, choices }
    out = await throughTaps(taps, chunkOf(completion, next))
  }
}

type Choice = ChatCompletion['choices'][number]

function chunkOf(completion: ChatCompletion, { message, ...rest }: Choice): Chunk {
  const { choices: _, usage: __, ...head } = completion
  const whole = { ...rest, finish_reason: rest.finish_reason || 'stop', delta: message ?? {} }
  return { ...head, object: 'chat.completion.chunk', choices: [whole] }
}

/** A choice after the taps. */
function joined({ message: _, ...rest }: Choice, chunks: readonly Chunk[]): Choice {
  const [first, ...more] = chunks.flatMap(each => each.choices)
  if (!first) return { ...rest, message: { role: 'assistant', content: '' } }
  const { delta, ...kept } = first
  const content = more.reduce((text, each) => text + (each.delta.content ?? ''), delta.content ?? '')
  const finish = (more.at(-1) ?? first).finish_reason
  return {
    ...rest,
    ...kept,
    // If no step has set it, the provider's value stays.
    finish_reason: finish === (rest.finish_reason || 'stop') ? rest.finish_reason : (finish ?? rest.finish_reason),
    message: more.length > 0 ? { ...delta, content } : delta,
  }
}
