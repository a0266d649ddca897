/** Answers of a virtual provider: whole answers and streams, honest and hostile, as pieces of bytes cut anywhere. */
import type { Random } from './random.ts'

/** The gateway's request. */
export interface RequestShape {
  readonly stream: boolean
  readonly choices: number
  readonly cap: number
}

/** One event of a stream, or a whole answer, with its content. */
export interface Item {
  readonly text: string
  readonly contents: readonly { readonly index: number; readonly text: string }[]
  /** The choices that it ends. */
  readonly finishes: readonly number[]
  /** The usage as in the JSON; undefined: none. */
  readonly usage?: unknown
  /** Nothing after this item counts: it is `[DONE]`, or not part of an answer. */
  readonly last?: 'done' | 'broken'
}

/** The provider's next action. */
export interface Move {
  readonly afterMs: number
  /** The bytes to send. These items end within them. */
  readonly bytes?: Buffer
  readonly items?: readonly Item[]
  readonly head?: { readonly status: number; readonly headers: Record<string, string> }
  readonly end?: 'complete' | Error
}

/** A plan, with its name for the log. */
export interface Script {
  readonly name: string
  readonly moves: readonly Move[]
  /** Repeated for ever after the moves. */
  readonly endless?: (nth: number) => Move
}

const WORDS = ['so ', 'it ', 'über ', 'goes ', '日本 ', 'on\\n', 'and ', '"quoted" ', 'far far far away ', '🙂']

/** Usages that must not be trusted completely. */
const HOSTILE: readonly unknown[] = [
  { prompt_tokens: -5, completion_tokens: 7, total_tokens: 2 },
  { prompt_tokens: 1e308, completion_tokens: 1e308, total_tokens: 1e308 },
  { prompt_tokens: 3.5, completion_tokens: 2.25, total_tokens: 5.75 },
  { prompt_tokens: '12', completion_tokens: '4', total_tokens: '16' },
  { prompt_tokens: 10, completion_tokens: 100_000, total_tokens: 100_010 },
  { prompt_tokens: 10_000_000, completion_tokens: 3, total_tokens: 10_000_003 },
  { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
  { prompt_tokens: 10, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 5_000 } },
  { prompt_tokens: 10, completion_tokens: -3 },
  { prompt_tokens: null, completion_tokens: 4 },
  { prompt_tokens: 9 },
  'much',
]

const JSON_HEAD = { 'content-type': 'application/json' }
const STREAM_HEAD = { 'content-type': 'text/event-stream' }

export function reset(code: string): Error {
  return Object.assign(new Error(`the provider closed the connection (${code})`), { code })
}

/** Draws the provider's behaviour for this request. */
export function drawScript(asked: RequestShape, random: Random): Script {
  const connectMs = random.whole(1, 40)
  const kind = random.next()
  if (kind < 0.05) {
    const code = random.pick(['ECONNREFUSED', 'ECONNRESET', 'UND_ERR_CONNECT_TIMEOUT', 'HPE_INVALID_CONSTANT'])
    return { name: `unreachable ${code}`, moves: [{ afterMs: connectMs, end: reset(code) }] }
  }
  if (kind < 0.1) return errorScript(random, connectMs)
  if (kind < 0.12) return { name: 'silent', moves: [] }
  const headAfterMs = random.chance(0.15) ? random.whole(1_000, 7_000) : random.whole(5, 400)
  if (kind < 0.14) return { name: 'head and silence', moves: [headMove(asked, headAfterMs)] }
  return asked.stream ? streamScript(asked, random, headAfterMs) : wholeScript(asked, random, headAfterMs)
}

function headMove({ stream }: RequestShape, afterMs: number): Move {
  return { afterMs, head: { status: 200, headers: stream ? STREAM_HEAD : JSON_HEAD } }
}

function errorScript(random: Random, afterMs: number): Script {
  const status = random.pick([400, 401, 404, 429, 500, 502, 503, 302])
  const text = JSON.stringify({ error: { message: 'no', type: 'server_error', param: null, code: null } })
  const bytes = Buffer.from(random.chance(0.2) ? '<html>no</html>' : text)
  const end = random.chance(0.2) ? reset('ECONNRESET') : 'complete'
  const head = { status, headers: { ...JSON_HEAD, ...(status === 429 ? { 'retry-after': '3' } : {}) } }
  return {
    name: `status ${status}`,
    moves: [
      { afterMs, head },
      { afterMs: 2, bytes },
      { afterMs: 2, end },
    ],
  }
}

const HEAD_OF_CHUNK = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'theirs' }

function event(item: Omit<Item, 'text'> & { readonly reason?: string }): Item {
  const { reason = 'stop', ...said } = item
  const choices = [
    ...said.contents.map(({ index, text }) => ({ index, delta: { content: text }, finish_reason: null })),
    ...said.finishes.map(index => ({ index, delta: {}, finish_reason: reason })),
  ]
  const json = JSON.stringify({ ...HEAD_OF_CHUNK, choices, ...('usage' in said ? { usage: said.usage } : {}) })
  return { ...said, text: `data: ${json}\n\n` }
}

const NOTHING = { contents: [], finishes: [] }
const DONE: Item = { ...NOTHING, text: 'data: [DONE]\n\n', last: 'done' }

/** Draws an honest usage, a hostile one or none. */
function drawUsage(tokens: number, random: Random): { readonly usage?: unknown; readonly name: string } {
  const kind = random.next()
  if (kind < 0.15) return { name: 'no usage' }
  if (kind < 0.35) return { name: 'hostile usage', usage: random.pick(HOSTILE) }
  const prompt = random.whole(5, 60)
  const cached = random.chance(0.3) ? random.whole(0, prompt) : 0
  const details = cached > 0 ? { prompt_tokens_details: { cached_tokens: cached } } : {}
  return {
    name: 'usage',
    usage: { prompt_tokens: prompt, completion_tokens: tokens, total_tokens: prompt + tokens, ...details },
  }
}

/** The pieces of an answer's text: some for each choice, in any order. */
function drawContents({ choices, cap }: RequestShape, random: Random): { index: number; text: string }[] {
  const most = random.chance(0.1) ? 0 : Math.min(cap, 30)
  return Array.from({ length: most === 0 ? 0 : random.whole(1, most) }, () => ({
    index: random.whole(0, choices - 1),
    text: random.pick(WORDS),
  }))
}

function wholeScript(asked: RequestShape, random: Random, headAfterMs: number): Script {
  const pieces = drawContents(asked, random)
  const contents = Array.from({ length: asked.choices }, (_, index) => ({
    index,
    text: pieces
      .filter(piece => piece.index === index)
      .map(piece => piece.text)
      .join(''),
  }))
  const drawn = drawUsage(pieces.length, random)
  const choices = contents.map(({ index, text }) => ({
    index,
    message: { role: 'assistant', content: text },
    finish_reason: 'stop',
  }))
  const { id, created, model } = HEAD_OF_CHUNK
  const text = JSON.stringify({
    ...{ id, object: 'chat.completion', created, model, choices },
    ...('usage' in drawn ? { usage: drawn.usage } : {}),
  })
  const item: Item = {
    text,
    contents: contents.filter(each => each.text !== ''),
    finishes: contents.map(each => each.index),
    ...('usage' in drawn ? { usage: drawn.usage } : {}),
  }
  const odd = random.next()
  const bad = (name: string, words: string): Script => ({
    name: `whole, ${name}`,
    moves: [
      headMove(asked, headAfterMs),
      { afterMs: 20, bytes: Buffer.from(words), items: [{ ...NOTHING, text: words, last: 'broken' }] },
      { afterMs: 5, end: 'complete' },
    ],
  })
  if (odd < 0.04) return bad('no JSON', text.slice(0, -9))
  if (odd < 0.07) return bad('no choices', '{"choices":[]}')
  if (odd < 0.09) return bad('an error', '{"error":{"message":"no","code":"500"}}')
  if (odd < 0.11) return bad('nothing', '')
  const moves = [headMove(asked, headAfterMs), ...cut([item], random, () => random.whole(0, 300))]
  if (odd < 0.17) {
    return { name: 'whole, reset', moves: [...moves.slice(0, -1), { afterMs: 10, end: reset('ECONNRESET') }] }
  }
  return { name: `whole, ${drawn.name}`, moves: [...moves, { afterMs: random.whole(0, 20), end: 'complete' }] }
}

function streamScript(asked: RequestShape, random: Random, headAfterMs: number): Script {
  const contents = drawContents(asked, random)
  const pace = random.pick([2, 20, 100, 400])
  const gapMs = () => random.whole(0, 2 * pace)
  const items: Item[] = []
  const early = random.chance(0.1)
  contents.forEach((content, nth) => {
    const usage = { prompt_tokens: 12, completion_tokens: early ? nth : 0, total_tokens: 12 + nth }
    items.push(event({ contents: [content], finishes: [], ...(early ? { usage } : {}) }))
    if (random.chance(0.03)) items.push({ ...NOTHING, text: ': comment\n\n' })
  })
  const head = headMove(asked, headAfterMs)
  const odd = random.next()
  if (odd < 0.16) return brokenStream(head, items, random, gapMs, odd)
  if (odd < 0.19) {
    // One such text exceeds a cap of 64 tokens; about ten exceed a cap of 1,000.
    const text = 'x'.repeat(2_000)
    return {
      name: 'stream without end',
      moves: [head, ...cut(items, random, gapMs)],
      endless: nth => {
        const item = event({ contents: [{ index: nth % asked.choices, text }], finishes: [] })
        return { afterMs: 50, bytes: Buffer.from(item.text), items: [item] }
      },
    }
  }
  const drawn = drawUsage(contents.length, random)
  const said = 'usage' in drawn ? { usage: drawn.usage } : {}
  const finishes = Array.from({ length: asked.choices }, (_, index) => index)
  const inFinish = random.chance(0.2)
  if (random.chance(0.3)) for (const index of finishes.splice(1)) items.push(event({ contents: [], finishes: [index] }))
  items.push(event({ contents: [], finishes, ...(inFinish ? said : {}), reason: random.pick(['stop', 'length']) }))
  const tail: Item[] = []
  if (!inFinish && 'usage' in drawn) tail.push(event({ ...NOTHING, ...said }))
  if (random.chance(0.05)) tail.push(event({ ...NOTHING, ...said }))
  // Content after the finish reason, before or after the usage.
  if (random.chance(0.1)) tail.unshift(event({ contents: [{ index: 0, text: 'late' }], finishes: [] }))
  if (random.chance(0.1)) tail.push(event({ contents: [{ index: 0, text: 'later '.repeat(40) }], finishes: [] }))
  const hasDone = random.chance(0.9)
  if (hasDone) tail.push(DONE)
  if (hasDone && random.chance(0.05)) tail.push(event({ contents: [{ index: 0, text: 'more' }], finishes: [] }))
  // Sometimes the usage is late: later than the gateway waits for it after a disconnect.
  const pauseMs = random.pick([0, 10, 10, 500, 1_900, 3_000])
  const [first, ...rest] = cut(tail, random, () => random.whole(0, 30))
  const moves = [head, ...cut(items, random, gapMs)]
  if (first) moves.push({ ...first, afterMs: first.afterMs + pauseMs }, ...rest)
  const name = `stream, ${drawn.name}${hasDone ? '' : ', no [DONE]'}`
  // A body that does not end after [DONE]: the gateway waits only a short time for its end.
  if (hasDone && random.chance(0.1)) return { name: `${name}, no end`, moves }
  return { name, moves: [...moves, { afterMs: random.whole(0, 20), end: 'complete' }] }
}

/** A stream that breaks after some of its items. */
function brokenStream(head: Move, all: readonly Item[], random: Random, gapMs: () => number, odd: number): Script {
  const items = all.slice(0, random.whole(0, all.length))
  const script = (name: string, more: readonly Item[], end?: 'complete' | Error): Script => ({
    name: `stream, ${name}`,
    moves: [head, ...cut([...items, ...more], random, gapMs), ...(end ? [{ afterMs: random.whole(0, 300), end }] : [])],
  })
  if (odd < 0.04) return script('reset', [], reset('ECONNRESET'))
  if (odd < 0.06) return script('silence in the middle', [])
  if (odd < 0.08) return script('no finish', [], 'complete')
  if (odd < 0.1) return script('[DONE] without a finish', [DONE], 'complete')
  if (odd < 0.12) {
    const text = 'data: {"error":{"message":"no","type":"server_error"}}\n\n'
    return script('error event', [{ ...NOTHING, text, last: 'broken' }], 'complete')
  }
  if (odd < 0.14) return script('garbage', [{ ...NOTHING, text: 'data: {oh\n\n', last: 'broken' }], 'complete')
  return script(
    'finish "error"',
    [{ ...event({ contents: [], finishes: [0], reason: 'error' }), finishes: [], last: 'broken' }],
    'complete',
  )
}

/** Items as pieces of bytes: alone, together with the next ones, or cut anywhere, even within a character. */
function cut(items: readonly Item[], random: Random, gapMs: () => number): Move[] {
  const moves: Move[] = []
  let carried = Buffer.alloc(0)
  let ended: Item[] = []
  const flush = () => {
    if (carried.length > 0) moves.push({ afterMs: gapMs(), bytes: carried, items: ended })
    carried = Buffer.alloc(0)
    ended = []
  }
  items.forEach((item, nth) => {
    const bytes = Buffer.from(item.text)
    const how = random.next()
    const at = how < 0.15 && bytes.length > 1 ? random.whole(1, bytes.length - 1) : 0
    if (at > 0) {
      carried = Buffer.concat([carried, bytes.subarray(0, at)])
      flush()
    }
    carried = Buffer.concat([carried, bytes.subarray(at)])
    ended.push(item)
    if (how < 0.85 || nth === items.length - 1) flush()
  })
  return moves
}
