/**
 * What the steps of a policy do with an answer on its way out. A chunk comes from the inside: the last step's taps see
 * it first, the first step's last, so that an outer step sees what the client will see.
 */
import type { ChatCompletion, Chunk } from '#contract'

export type Tap =
  | { readonly step: number; readonly kind: 'watch'; readonly fn: (chunk: Chunk) => void }
  | {
      readonly step: number
      readonly kind: 'edit'
      readonly fn: (chunk: Chunk) => Chunk | readonly Chunk[] | null
    }

/** A tap threw: the step's own error, in the middle of an answer. */
export class TapError extends Error {
  override readonly name = 'TapError'
  readonly step: number

  constructor(step: number, cause: unknown) {
    super(`watch or edit of step ${step} threw`, { cause })
    this.step = step
  }
}

/** Whether the bytes can pass as they came: nobody changes anything. */
export function onlyWatched(taps: readonly Tap[]): boolean {
  return taps.every(tap => tap.kind === 'watch')
}

/** Sends one chunk through the taps; what comes out may be no chunk, one or several. */
export function throughTaps(taps: readonly Tap[], chunk: Chunk): readonly Chunk[] {
  let chunks: readonly Chunk[] = [chunk]
  for (let index = taps.length - 1; index >= 0; index--) {
    const tap = taps[index]!
    try {
      if (tap.kind === 'watch') for (const each of chunks) tap.fn(each)
      else chunks = chunks.flatMap(each => chunksFrom(tap.fn(each)))
    } catch (cause) {
      throw new TapError(tap.step, cause)
    }
    if (chunks.length === 0) return chunks
  }
  return chunks
}

/**
 * What an edit has returned. A plugin need not be TypeScript: one that forgets to return, or is async, would silently
 * empty the answer.
 */
function chunksFrom(returned: Chunk | readonly Chunk[] | null): readonly Chunk[] {
  if (returned === null) return []
  const chunks = Array.isArray(returned) ? (returned as readonly Chunk[]) : [returned as Chunk]
  if (!chunks.every(isChunk)) throw new TypeError('an edit must return a chunk, a list of chunks, or null to drop it')
  return chunks
}

function isChunk(value: Chunk | null | undefined): boolean {
  return Array.isArray(value?.choices) && value.choices.every(choice => choice?.delta != null)
}

/**
 * Sends a whole answer through the taps: each choice is one chunk whose delta is the message itself, so that no field
 * is lost on the way there and back. A choice whose chunk was dropped is left with an empty message. One without a finish
 * reason has one for the taps: it is whole, and who waits for the end of a text has to know.
 */
export function completionThroughTaps(taps: readonly Tap[], completion: ChatCompletion): ChatCompletion {
  if (taps.length === 0) return completion
  const choices = completion.choices.map(choice => {
    const { message, ...rest } = choice
    const { choices: _, usage: __, ...head } = completion
    const finish = choice.finish_reason || 'stop'
    const whole = { ...rest, finish_reason: finish, delta: message ?? {} }
    const chunk: Chunk = { ...head, object: 'chat.completion.chunk', choices: [whole] }
    const out = throughTaps(taps, chunk).flatMap(each => each.choices)
    if (out.length === 0) return { ...rest, message: { role: 'assistant', content: '' } }
    const [first, ...more] = out
    const { delta, ...kept } = first!
    const joined = more.reduce((text, each) => text + (each.delta.content ?? ''), delta.content ?? '')
    const told = (more.at(-1) ?? first!).finish_reason
    return {
      ...rest,
      ...kept,
      // What no step has said itself stays as the provider has said it.
      finish_reason: told === finish ? choice.finish_reason : (told ?? choice.finish_reason),
      message: more.length > 0 ? { ...delta, content: joined } : delta,
    }
  })
  return { ...completion, choices }
}
