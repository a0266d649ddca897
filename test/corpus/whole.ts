/**
 * The whole form of a recorded stream: the provider's events joined as its own library would, without gateway code. A
 * translated stream must equal the translation of this whole form.
 */
type Fields = Record<string, unknown>

/** A recorded body, in the forms that the corpus has. */
export interface RecordedBody {
  readonly format: string
  readonly body?: unknown
  readonly sse_text?: string
  readonly ndjson_text?: string
  readonly body_base64?: string
  readonly events?: readonly { readonly headers: Readonly<Record<string, string>>; readonly payload: Fields }[]
}

/**
 * Joins a stream into the JSON of a whole answer, by the corpus' name of the dialect. Null for the one kind of stream without a
 * whole form: it starts again in the middle of a call.
 */
export const WHOLE_FORMS: Readonly<Record<string, (body: RecordedBody) => unknown>> = {
  anthropic: body => messageOf(eventsIn(body)),
  'bedrock-invoke': ({ events }) => messageOf(events!.map(({ payload }) => invoked(payload['bytes'] as string))),
  'bedrock-converse': ({ events }) => converseOf(events!),
  gemini: body => generateContentOf(eventsIn(body)),
  'cohere-v2': body => cohereOf(eventsIn(body)),
  'ollama-native': ({ ndjson_text }) => joinedLines(ndjson_text!.split('\n').filter(line => line.trim() !== '')),
}

function eventsIn({ format, sse_text, body }: RecordedBody): Fields[] {
  if (format === 'json-array') return body as Fields[]
  const data = sse_text!.split(/\r?\n/).filter(line => line.startsWith('data:'))
  return data.flatMap(line => (line.includes('[DONE]') ? [] : [JSON.parse(line.slice(5)) as Fields]))
}

const invoked = (base64: string) => JSON.parse(Buffer.from(base64, 'base64').toString('utf8')) as Fields

/** The Messages API: the first message, if there are several. */
function messageOf(events: readonly Fields[]): Fields | null {
  const message: Fields = { usage: {} }
  const blocks: Fields[] = []
  const [inputs, made] = [new Map<Fields, string>(), new Map<unknown, Fields>()]
  for (const event of events) {
    if (event['type'] === 'message_stop') break
    if (event['type'] === 'message_start') {
      const { content, usage, ...rest } = event['message'] as Fields
      if (blocks.length === 0) blocks.push(...(content as Fields[]))
      if ([...made.values()].some(block => inputs.has(block))) return null
      made.clear()
      Object.assign(message, rest, { id: message['id'] ?? rest['id'] })
      merge(message['usage'] as Fields, usage)
    } else if (event['type'] === 'message_delta') {
      merge(message, event['delta'])
      merge(message['usage'] as Fields, event['usage'])
    } else if (event['type'] === 'content_block_start') {
      const block = { ...(event['content_block'] as Fields) }
      made.set(event['index'], block)
      blocks.push(block)
    } else if (event['type'] === 'content_block_stop') {
      made.delete(event['index'])
    } else if (event['type'] === 'content_block_delta') {
      const block = made.get(event['index'])
      if (block) grow(block, event['delta'] as Fields, inputs)
    }
  }
  for (const [block, text] of inputs) if (text !== '') block['input'] = JSON.parse(text)
  return { ...message, content: blocks }
}

function grow(block: Fields, delta: Fields, inputs: Map<Fields, string>): void {
  const { partial_json } = delta
  if (typeof partial_json === 'string') inputs.set(block, (inputs.get(block) ?? '') + partial_json)
  add(block, delta, ['text', 'thinking', 'signature'])
}

/** A null value adds nothing. */
function merge(known: Fields, update: unknown): void {
  for (const [name, value] of Object.entries((update ?? {}) as Fields)) if (value !== null) known[name] = value
}

function converseOf(
  events: readonly { readonly headers: Readonly<Record<string, string>>; payload: Fields }[],
): Fields {
  const whole: Fields = {}
  const blocks = new Map<number, Fields>()
  const inputs = new Map<Fields, string>()
  for (const { headers, payload } of events) {
    const at = payload['contentBlockIndex'] as number
    if (headers[':event-type'] === 'contentBlockStart') {
      const { toolUse } = payload['start'] as { toolUse?: Fields }
      blocks.set(at, toolUse ? { toolUse: { ...toolUse } } : { other: true })
    } else if (headers[':event-type'] === 'contentBlockDelta') {
      const block = blocks.get(at) ?? {}
      blocks.set(at, block)
      growBlock(block, payload['delta'] as Fields, inputs)
    } else if (headers[':event-type'] === 'messageStop') whole['stopReason'] = payload['stopReason']
    else if (headers[':event-type'] === 'metadata') whole['usage'] = payload['usage']
  }
  for (const [call, text] of inputs) call['input'] = text === '' ? {} : JSON.parse(text)
  const content = [...blocks].sort(([one], [other]) => one - other).map(([, block]) => block)
  return { ...whole, output: { message: { role: 'assistant', content } } }
}

function growBlock(block: Fields, { text, toolUse, reasoningContent }: Fields, inputs: Map<Fields, string>): void {
  if (typeof text === 'string') block['text'] = `${block['text'] ?? ''}${text}`
  const call = block['toolUse'] as Fields | undefined
  if (toolUse && call) inputs.set(call, (inputs.get(call) ?? '') + (toolUse as { input: string }).input)
  if (!reasoningContent) return
  const { text: thought, signature, redactedContent } = reasoningContent as Fields
  const content = (block['reasoningContent'] ??= {}) as Fields
  if (typeof redactedContent === 'string') content['redactedContent'] = redactedContent
  if (thought === undefined && signature === undefined) return
  const reasoningText = (content['reasoningText'] ??= { text: '' }) as Fields
  reasoningText['text'] = `${reasoningText['text']}${thought ?? ''}`
  if (signature !== undefined) reasoningText['signature'] = `${reasoningText['signature'] ?? ''}${signature}`
}

/** generateContent: all parts in order, and the last value of all other members. */
function generateContentOf(pieces: readonly Fields[]): Fields {
  const whole: Fields = {}
  const parts: unknown[] = []
  const candidate: Fields = {}
  for (const { candidates, usageMetadata, ...rest } of pieces) {
    merge(whole, { responseId: whole['responseId'] ?? rest['responseId'] ?? null })
    merge(whole, { promptFeedback: rest['promptFeedback'] ?? null })
    if (Object.keys((usageMetadata ?? {}) as Fields).some(name => name.endsWith('TokenCount'))) {
      whole['usageMetadata'] = usageMetadata
    }
    const [one] = (candidates ?? []) as Fields[]
    if (!one) continue
    const { content, ...more } = one
    Object.assign(candidate, more, { seen: true })
    parts.push(...((((content ?? {}) as Fields)['parts'] as unknown[] | undefined) ?? []))
  }
  return {
    ...whole,
    ...(candidate['seen'] ? { candidates: [{ ...candidate, content: { role: 'model', parts } }] } : {}),
  }
}

/** Cohere: blocks and calls by index, each in its own list. */
function cohereOf(events: readonly Fields[]): Fields {
  const [blocks, calls]: [Fields[], Fields[]] = [[], []]
  const message: Fields = { role: 'assistant' }
  let whole: Fields = {}
  for (const { type, index, id, delta } of events) {
    const at = index as number
    const { message: piece = {}, ...ended } = (delta ?? {}) as { message?: Fields }
    const { content, tool_plan, tool_calls } = piece as { content?: Fields; tool_plan?: string; tool_calls?: Fields }
    if (type === 'message-start') whole = { id }
    else if (type === 'content-start') blocks[at] = { ...content }
    else if (type === 'content-delta') add(blocks[at]!, content!, ['text', 'thinking'])
    else if (type === 'tool-plan-delta') add(message, { tool_plan }, ['tool_plan'])
    else if (type === 'tool-call-start') calls[at] = structuredClone(tool_calls!)
    else if (type === 'tool-call-delta') {
      add(calls[at]!['function'] as Fields, tool_calls!['function'] as Fields, ['arguments'])
    } else if (type === 'message-end') Object.assign(whole, ended)
  }
  if (calls.length > 0) message['tool_calls'] = calls.filter(Boolean)
  return { ...whole, message: { ...message, content: blocks.filter(Boolean) } }
}

/** Ollama: the last line, with the joined message of all lines. */
function joinedLines(lines: readonly string[]): Fields {
  const message: Fields = { role: 'assistant' }
  let last: Fields = {}
  for (const line of lines) {
    last = JSON.parse(line) as Fields
    const { tool_calls, ...piece } = (last['message'] ?? {}) as Fields
    add(message, piece, ['content', 'thinking'])
    if (tool_calls)
      message['tool_calls'] = [...((message['tool_calls'] as unknown[]) ?? []), ...(tool_calls as unknown[])]
  }
  return { ...last, message }
}

function add(known: Fields, more: Fields, names: readonly string[]): void {
  for (const name of names) if (typeof more[name] === 'string') known[name] = `${known[name] ?? ''}${more[name]}`
}
