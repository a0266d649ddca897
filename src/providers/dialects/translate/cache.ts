/**
 * Cache marks: `cache_control`, a client's hint that the prompt up to here will be sent again. Providers without such a hint get no
 * marks, and answer the same. This file has the rules that the others share.
 */

/** A mark in the canonical body, in Anthropic's form. The default TTL is five minutes. */
export interface CacheMark {
  readonly type: 'ephemeral'
  readonly ttl?: '5m' | '1h'
}

/** The mark of a part, a tool or a call; undefined without a mark, or with an unknown one. */
export function cacheMarkOf(marked: object): CacheMark | undefined {
  const { cache_control: mark } = marked as {
    readonly cache_control?: { readonly type?: unknown; readonly ttl?: unknown } | null
  }
  if (typeof mark !== 'object' || mark?.type !== 'ephemeral') return undefined
  return mark.ttl === '5m' || mark.ttl === '1h' ? { type: 'ephemeral', ttl: mark.ttl } : { type: 'ephemeral' }
}

/** `{cache}` with a mark, else an empty object: to be spread. */
export function markedWith(mark: CacheMark | undefined): { readonly cache?: CacheMark } {
  return mark === undefined ? {} : { cache: mark }
}

/** How a provider writes marks into blocks. */
export interface MarkForm<Block> {
  /** The TTL of the mark that this block has, or is. */
  ttlOf(block: Block): '5m' | '1h' | undefined
  shortened(block: Block): Block
  /** The block without its mark; null if it was only a mark. */
  unmarked(block: Block): Block | null
}

/** Maximum number of marks in a request, for Anthropic and AWS. */
const MAX_MARKS = 4

/**
 * Limits the marks. Of more than four the first ones are removed, because a later mark covers everything before it. A TTL
 * that is longer than an earlier one, which providers refuse, is shortened.
 * @param lists in the order in which the provider reads them: tools, system, messages
 */
export function fitMarks<Block>(
  lists: readonly (readonly Block[])[],
  form: MarkForm<Block>,
): { readonly lists: readonly (readonly Block[])[]; readonly isCut: boolean } {
  const marks = lists.flat().filter(block => form.ttlOf(block) !== undefined).length
  if (marks === 0) return { lists, isCut: false }
  let surplus = marks - MAX_MARKS
  let isShort = false
  const fit = (block: Block): Block | null => {
    const ttl = form.ttlOf(block)
    if (ttl === undefined) return block
    if (surplus-- > 0) return form.unmarked(block)
    if (ttl === '1h') return isShort ? form.shortened(block) : block
    isShort = true
    return block
  }
  const fitted = lists.map(list => list.map(fit).filter(block => block !== null))
  return { lists: fitted, isCut: marks > MAX_MARKS }
}

/** The blocks of a request, in the order in which the provider reads them. */
export interface Prompt<Block, Message> {
  readonly tools: readonly Block[]
  readonly system: readonly Block[]
  readonly messages: readonly Message[]
}

/** `fitMarks` for a whole request. @param prepare converts each block first */
export function fitMarksIn<Block, Message extends { readonly content: readonly Block[] }>(
  { tools, system, messages }: Prompt<Block, Message>,
  form: MarkForm<Block>,
  prepare?: (block: Block) => Block,
): Prompt<Block, Message> & { readonly isCut: boolean } {
  const all = [tools, system, ...messages.map(({ content }) => content)]
  const { lists, isCut } = fitMarks(prepare ? all.map(list => list.map(prepare)) : all, form)
  const [fitTools = [], fitSystem = [], ...contents] = lists
  return {
    tools: fitTools,
    system: fitSystem,
    messages: messages.map((message, index) => ({ ...message, content: contents[index]! })),
    isCut,
  }
}
