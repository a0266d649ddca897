/**
 * Names and values for limits, budgets and reports. Each tag has a declared source and a limited number of values. Clients can invent
 * values, so the settings must allow those of clients.
 */
import { definePlugin, type FactName, refuse, type SettingsProblem } from '#contract'
import {
  BadHeader,
  factOf,
  isOfClient,
  isSecret,
  SOURCE_PATTERN,
  type Source,
  sourceOf,
  type TaggedContext,
  valueIn,
} from './sources.ts'
import { ValueLimit } from './value-limit.ts'

interface TagSettings {
  readonly from: string | readonly string[]
  readonly client: boolean
  readonly values?: readonly string[]
  readonly at_most?: number
  readonly default?: string
  readonly required: boolean
}

interface Settings {
  readonly tags: Readonly<Record<string, TagSettings>>
}

/** Replaces values above `at_most`. */
const OTHER = 'other'
/** The default for a tag that clients set, for each account and day. */
const AT_MOST = 1000
/** The rule of names in the ledger. */
const VALUE = /^(?!\s)[^\p{C}]{1,200}(?<!\s)$/u
const RULE = '1 to 200 visible characters without spaces around them'
/** Words of CEL: conditions cannot name such a tag. */
const RESERVED: ReadonlySet<string> = new Set(
  'as break const constructor continue else false for function if import in let loop namespace null package prototype return true var void while'.split(
    ' ',
  ),
)
/** The maximum length of a value in an error, in UTF-16 units. */
const SHOWN = 60
/** The maximum number of values in an error. */
const LISTED = 20

const value = (description: string) => ({
  type: 'string',
  pattern: VALUE.source,
  sentence: `must be ${RULE}`,
  description,
})

export default definePlugin({
  name: 'tags',
  description: 'Gives a request names and values for conditions, limits, budgets, receipts and reports.',
  dryRun: true,
  needs: ({ tags }: Settings) => {
    const facts = tagsOf(tags).flatMap(tag => [...tag.sources.map(factOf), tag.atMost === null ? null : 'account'])
    return [...new Set(facts.filter((fact): fact is FactName => fact !== null))]
  },
  needsBody: ({ tags }: Settings) =>
    tagsOf(tags).some(({ sources }) => sources.some(({ kind }) => kind === 'metadata')),
  gives: ['tags'],
  uses: ['buckets', 'kv'],
  settings: {
    type: 'object',
    additionalProperties: false,
    required: ['tags'],
    properties: {
      tags: {
        type: 'object',
        minProperties: 1,
        maxProperties: 20,
        description: 'The tags by name.',
        propertyNames: {
          pattern: '^[a-z][a-z0-9_]{0,39}$',
          sentence: 'must be a name of lower-case letters, digits and underscores, with a letter first',
        },
        additionalProperties: {
          type: 'object',
          additionalProperties: false,
          required: ['from'],
          description: 'One tag.',
          properties: {
            from: {
              type: ['string', 'array'],
              description:
                'Its source: `claim NAME`, `key` or `account` (their names), `header NAME`, or `metadata.NAME`. Of a list, the first that has a value.',
              pattern: SOURCE_PATTERN,
              sentence: 'must be claim NAME, key, account, header NAME or metadata.NAME, or a list of them',
              minItems: 1,
              maxItems: 10,
              uniqueItems: true,
              items: {
                type: 'string',
                pattern: SOURCE_PATTERN,
                sentence: 'must be claim NAME, key, account, header NAME or metadata.NAME',
              },
            },
            client: {
              type: 'boolean',
              default: false,
              description: 'Whether clients may set it. Headers and metadata need it.',
            },
            values: {
              type: 'array',
              minItems: 1,
              maxItems: 1000,
              uniqueItems: true,
              items: value('A value.'),
              description: 'The allowed values. Any other one is refused.',
            },
            at_most: {
              type: 'integer',
              minimum: 1,
              maximum: 1_000_000,
              description:
                'Different values for each account and day; any further one becomes `other`. Default: 1000 where clients set it, else any number.',
            },
            default: value('The value of a request without one.'),
            required: {
              type: 'boolean',
              default: false,
              description: 'Whether a request without a value is refused.',
            },
          },
          if: { required: ['values'] },
          then: { properties: { at_most: { refused: 'at_most and values exclude each other; choose one of them' } } },
        },
      },
    },
  },
  check: ({ tags }: Settings) => Object.entries(tags).flatMap(([name, tag]) => problemsOf(tag, `/tags/${name}`, name)),
  create({ tags }: Settings, services, { policy, id }) {
    const all = tagsOf(tags).map(tag => ({
      ...tag,
      limit: tag.atMost === null ? null : new ValueLimit(`${policy}/${id}/${tag.name}`, tag.atMost, services),
    }))
    return {
      decide(ctx) {
        const { exchange } = ctx
        const found: Record<string, string> = {}
        // A refused request uses up no value.
        for (const tag of all) {
          const sent = readTag(ctx, tag)
          if (sent !== undefined) found[tag.name] = sent
        }
        let waiting: Promise<void>[] | null = null
        for (const { name, limit, otherwise } of all) {
          const sent = found[name]
          if (sent === undefined) {
            if (otherwise !== undefined) found[name] = otherwise
          } else if (limit !== null) {
            const admitted = limit.admits(exchange.account!.id, sent)
            if (admitted === false) found[name] = OTHER
            else if (admitted !== true) {
              waiting ??= []
              waiting.push(
                admitted.then(isAdmitted => {
                  if (!isAdmitted) found[name] = OTHER
                }),
              )
            }
          }
        }
        if (waiting !== null) return Promise.all(waiting).then(() => exchange.give('tags', Object.freeze(found)))
        exchange.give('tags', Object.freeze(found))
      },
    }
  },
})

/** The settings of a tag with their defaults. */
interface Tag {
  readonly name: string
  readonly sources: readonly Source[]
  readonly values: readonly string[] | null
  /** Null: any number. */
  readonly atMost: number | null
  readonly otherwise: string | undefined
  readonly required: boolean
}

function tagsOf(tags: Settings['tags']): Tag[] {
  return Object.entries(tags).map(([name, { from, values = null, at_most, default: otherwise, required }]) => {
    const sources = [from].flat().map(sourceOf)
    const atMost = at_most ?? (values === null && sources.some(isOfClient) ? AT_MOST : null)
    return { name, sources, values, atMost, otherwise, required }
  })
}

function problemsOf(tag: TagSettings, at: string, name: string): SettingsProblem[] {
  if (RESERVED.has(name)) return [{ at, message: `"${name}" is a word of conditions, so no tag can have that name` }]
  const problems: SettingsProblem[] = []
  const sources = [tag.from].flat().map(sourceOf)
  for (const [i, source] of sources.entries()) {
    const place = typeof tag.from === 'string' ? `${at}/from` : `${at}/from/${i}`
    if (isSecret(source))
      problems.push({ at: place, message: `${source.text} carries a secret, and tags are recorded` })
    if (!isOfClient(source) || tag.client) continue
    const message = `clients can send any ${source.text}; write client: true beside it to allow that`
    problems.push({ at: place, message })
  }
  if (tag.client && !sources.some(isOfClient)) {
    problems.push({ at: `${at}/client`, message: 'clients set none of its sources; remove this line' })
  }
  if (tag.default === undefined) return problems
  if (tag.required) problems.push({ at: `${at}/required`, message: 'a tag with a default is never missing' })
  if (tag.values?.includes(tag.default) === false) {
    problems.push({ at: `${at}/default`, message: `default must be ${oneOf(tag.values)}` })
  }
  return problems
}

/** The value of a request; undefined: none. Throws a refusal for an invalid value, and for a missing one that is required. */
function readTag(ctx: TaggedContext, tag: Tag): string | undefined {
  for (const source of tag.sources) {
    const sent = valueIn(ctx, source)
    if (sent === undefined || sent === null || sent === '') continue
    const text = typeof sent === 'number' || typeof sent === 'boolean' ? String(sent) : sent
    const rule = ruleBroken(text, tag.values)
    if (rule === null) return text as string
    throw refuse('invalid_tag', {
      param: source.kind === 'metadata' ? source.text : null,
      message: `The tag "${tag.name}" (${source.text}) must be ${rule}, and ${shown(sent)}.`,
    })
  }
  if (!tag.required) return undefined
  throw refuse('tag_required', {
    message: `The tag "${tag.name}" is required. Its value comes from ${tag.sources.map(({ text }) => text).join(' or ')}.`,
  })
}

function ruleBroken(text: unknown, values: readonly string[] | null): string | null {
  if (values !== null) return values.includes(text as string) ? null : oneOf(values)
  return typeof text === 'string' && VALUE.test(text) ? null : RULE
}

function oneOf(values: readonly string[]): string {
  return values.length > LISTED ? `one of ${values.length} allowed values` : `one of ${values.join(', ')}`
}

function shown(sent: unknown): string {
  if (sent instanceof BadHeader) return sent.mistake
  if (typeof sent !== 'string')
    return Array.isArray(sent) ? 'is a list' : typeof sent === 'object' ? 'is an object' : `is ${sent}`
  return `is ${JSON.stringify(sent.length > SHOWN ? `${sent.slice(0, SHOWN)}…` : sent)}`
}
