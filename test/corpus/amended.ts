/**
 * Corpus expectations that cannot be met, each with its replacement and the reason. The checker judges these cases by the
 * replacement; the proof lists them.
 */

export interface Amendment {
  /** The reason why the corpus' own expectation cannot be met. */
  readonly why: string
  /** Replaces the expectation's fields of the same names. */
  readonly expect: Readonly<Record<string, unknown>>
}

const SEVERAL = 'the recording is several answers of the provider one after the other; an exchange has one, the first'
const OWN_TOOL =
  "expects a call of AWS's own tool (server_tool_use), which AWS has already run, as a call for the client"
const NO_NAMES =
  'expects a call without a name for each piece of a call, and so the checker sends tools without names; here, the calls that the pieces add up to'
const FAILED = 'expects an answer that its provider ended with an error to end in good order; here, the error'

const FREE =
  'expects a prompt of 0 tokens, which the provider did not count because it was cached; here, no usage, so that it is estimated'
const UNCOUNTED =
  'expects the zeros of a provider that has counted nothing of an answer with text; here, no usage, so that it is estimated'

const call = (name: string, args: object) => ({ id: null, name, arguments: args })

/** The first of several answers: the values of its own `message_delta`. */
const first = (calls: readonly object[], prompt_tokens: number, completion_tokens: number): Amendment => ({
  why: SEVERAL,
  expect: {
    tool_calls: calls,
    finish_reason: 'tool_calls',
    usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
  },
})

/** These fields are no longer conventions, so all of them are compared. */
const named = (...tool_calls: readonly object[]): Amendment => ({
  why: NO_NAMES,
  expect: { tool_calls, ambiguous: [] },
})

const NOTE = { noteId: 'd10aa585-982b-4bd9-984e-420f9b3717f7' }

export const AMENDED: Readonly<Record<string, Amendment>> = {
  'anthropic-fx-19a5aa47': first([call('readNoteTree', NOTE)], 904, 175),
  'anthropic-fx-54589745': first([call('rollDie', { player: 'player1' })], 3369, 725),
  'anthropic-fx-dd17de75': first([call('readNoteTree', NOTE)], 879, 177),
  'bedrock-8d4ae721': { why: OWN_TOOL, expect: { tool_calls: [] } },
  'bedrock-8ec8bde3': { why: OWN_TOOL, expect: { tool_calls: [call('final_result', { result: 7006652 })] } },
  'cohere-doc-midstream-end-error': { why: FAILED, expect: { must_surface_error: true } },
  'gemini-fx-1fa4783f': named(
    call('getWeather', { location: 'Boston' }),
    call('getWeather', { location: 'San Francisco' }),
  ),
  'gemini-fx-33c39931': named(
    call('writeItems', {
      operations: [
        { action: 'add', description: 'Fresh red apple', itemid: 'apple_001', price: 0.5 },
        { action: 'add', description: 'Ripe yellow banana', itemid: 'banana_001', price: 0.3 },
      ],
    }),
  ),
  'vertex-gemini-ec3f2360': { why: UNCOUNTED, expect: { usage: null } },
  'ollama-64c9f7a2': { why: FREE, expect: { usage: null } },
  'gemini-fx-ea54ea9a': named(call('read_theme', {}), ...['A', 'B', 'C'].map(id => call('read_screen', { id }))),
}
