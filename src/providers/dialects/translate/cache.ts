/**
 * Marks of what is worth keeping: `cache_control`, a client's hint that its prompt up to here comes again. Providers that
 * take no such hint are sent none, and answer the same. For those that do, the rules that they share stand here.
 */

/** As it stands in the canonical body, in Anthropic's form; five minutes unless it says otherwise. */
export interface CacheMark {
  readonly type: 'ephemeral'
  readonly ttl?: '5m' | '1h'
}

/** The mark of a part, a tool or a call; undefined where there is none, or one that nobody knows. */
export function cacheMarkOf(marked: object): CacheMark | undefined {
  const { cache_control: mark } = marked as {
    readonly cache_control?: { readonly type?: unknown; readonly ttl?: unknown } | null
  }
  if (typeof mark !== 'object' || mark?.type !== 'ephemeral') return undefined
  return mark.ttl === '5m' || mark.ttl === '1h' ? { type: 'ephemeral', ttl: mark.ttl } : { type: 'ephemeral' }
}

/** `{cache}` where there is a mark, else nothing: to be spread. */
export function markedWith(mark: CacheMark | undefined): { readonly cache?: CacheMark } {
  return mark === undefined ? {} : { cache: mark }
}

/** How a provider writes marks into blocks. */
export interface MarkForm<Block> {
  /** How long the mark lasts that this block has, or is. */
  ttlOf(block: Block): '5m' | '1h' | undefined
  /** The block with the default mark. */
  shortened(block: Block): Block
  /** The block without its mark; null when it was nothing else. */
  unmarked(block: Block): Block | null
}

/** So many marks Anthropic takes in a request, and AWS too. */
const MAX_MARKS = 4

/**
 * Holds the marks to what providers take. Of more than four the first ones go: a later mark covers what stands before it.
 * One that lasts longer than one before it, which is refused, lasts as long as that one.
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

/** A request's blocks, in the order in which the provider reads them. */
export interface Prompt<Block, Message> {
  readonly tools: readonly Block[]
  readonly system: readonly Block[]
  readonly messages: readonly Message[]
}

/** `fitMarks` over a whole request. @param prepare what becomes of each block before; left out: nothing */
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
