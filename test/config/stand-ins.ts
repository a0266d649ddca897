/** Plugins with the names, needs and facts of the built-in ones, but few settings. Others have mistakes. */
import { basename } from 'node:path'
import { type AnyPlugin, definePlugin, type RouteKind, unit } from '#contract'
import { createRegistry, type Registry } from '../../src/loader/registry.ts'

const settings = (properties: Record<string, object>, more: object = {}) =>
  ({ type: 'object', additionalProperties: false, properties, ...more }) as const
const pass = () => async (_context: unknown, next: () => Promise<void>) => next()

const apiKey = definePlugin({
  name: 'api-key',
  critical: true,
  gives: ['key', 'account'],
  uses: ['keys', 'clock'],
  settings: settings({}),
  create: pass,
})

const schema = definePlugin({
  name: 'schema',
  gives: ['chat', 'model'],
  settings: settings({
    unknown_fields: { enum: ['refuse', 'pass'], description: 'What to do with unknown fields.', default: 'refuse' },
  }),
  create: pass,
})

const FACT_OF: Record<string, 'key' | 'account' | 'model'> = { key: 'key', account: 'account', model: 'model' }

const rateLimit = definePlugin<{ per: string }>({
  name: 'rate-limit',
  needs: ({ per }) => (FACT_OF[per] === undefined ? [] : [FACT_OF[per]]),
  settings: settings(
    {
      per: { enum: ['key', 'account', 'model', 'address'], description: 'Whose requests are counted.' },
      requests: { ...unit('rate'), description: 'How many requests.' },
      burst: { type: 'integer', minimum: 1, description: 'How many at once.' },
      tokens: { ...unit('rate'), description: 'How many tokens.' },
    },
    { required: ['per'], anyOf: [{ required: ['requests'] }, { required: ['tokens'] }] },
  ),
  create: pass,
})

const credits = definePlugin({
  name: 'credits',
  critical: true,
  needs: (_settings: never, kind: RouteKind) =>
    kind === 'chat' ? ['key', 'account', 'chat', 'model'] : ['key', 'account'],
  gives: ['hold'],
  uses: ['ledger'],
  settings: settings({
    on_disconnect: { enum: ['cancel', 'drain'], description: 'When the client leaves.', default: 'cancel' },
  }),
  create: pass,
})

const route = definePlugin({
  name: 'route',
  needs: ['chat', 'model'],
  gives: ['targets'],
  settings: settings({}),
  create: pass,
})

/** Neither guards nor gives anything. */
const remark = definePlugin({
  name: 'remark',
  settings: settings({
    text: { type: 'string', description: 'What to say.', default: 'hello' },
    times: { type: 'integer', minimum: 1, maximum: 9, description: 'How often.', default: 1 },
    loud: { type: 'boolean', description: 'Whether in capitals.', default: false },
    size: { ...unit('bytes'), description: 'A size.', default: '1KiB' },
    price: { ...unit('money'), description: 'A price.' },
    after: { ...unit('duration'), description: 'A pause.', default: '1s' },
  }),
  create: pass,
})

/** A plugin whose `needs` fails. */
const moody = definePlugin({
  name: 'moody',
  needs: () => {
    throw new Error('not today')
  },
  settings: settings({}),
  create: pass,
})
/** Has a setting for each JSON Schema keyword without its own message. */
const gauge = definePlugin({
  name: 'gauge',
  settings: settings({
    above: { type: 'number', exclusiveMinimum: 3, description: 'More than 3.' },
    below: { type: 'number', exclusiveMaximum: 9, description: 'Less than 9.' },
    even: { type: 'integer', multipleOf: 2, description: 'Even.' },
    word: { type: 'string', maxLength: 3, description: 'Short.' },
    list: { type: 'array', maxItems: 2, description: 'Two at most.' },
    pair: { type: 'array', prefixItems: [{}, {}], minItems: 2, items: false, description: 'Two.' },
    has: { type: 'array', contains: { const: 1 }, description: 'A 1 in it.' },
    map: { type: 'object', maxProperties: 1, description: 'One at most.' },
    free: { type: 'string', not: { const: 'none' }, description: 'Not none.' },
    never: { allOf: [false], description: 'Not to be given.' },
  }),
  create: pass,
})
/** Changes requests, so it must run before the hold. */
const rewriter = definePlugin({
  name: 'rewriter',
  needs: ['chat'],
  before: (_settings: never, kind: RouteKind) => (kind === 'chat' ? ['hold'] : []),
  settings: settings({}),
  create: pass,
})
/** Must come before `rewriter`. */
const loner = definePlugin({ name: 'loner', precedes: ['rewriter'], settings: settings({}), create: pass })
const shy = definePlugin({
  name: 'shy',
  precedes: () => {
    throw new Error('unknown person')
  },
  settings: settings({}),
  create: pass,
})
const gloomy = definePlugin({
  name: 'gloomy',
  before: () => {
    throw new Error('never')
  },
  settings: settings({}),
  create: pass,
})
const greedy = definePlugin({ name: 'greedy', uses: ['ledger'], settings: settings({}), create: pass })

const diary = definePlugin({ name: 'diary', records: true, settings: settings({}), create: pass })

/** Refuses certain settings in `check`. */
const picky = definePlugin<{ pattern?: string; words?: { word: string }[]; wait: number }>({
  name: 'picky',
  settings: settings(
    {
      pattern: { type: 'string', description: 'No "+" in it.' },
      // A setting may have the name of a word of JSON Schema.
      not: { type: 'boolean', description: 'Whether the opposite.' },
      wait: { ...unit('duration'), description: 'Not longer than a minute.', default: '1s' },
      words: {
        type: 'array',
        description: 'Each once.',
        items: {
          type: 'object',
          additionalProperties: false,
          oneOf: [{ required: ['word'] }, { required: ['not'] }],
          properties: {
            word: { type: 'string', description: 'A word.' },
            not: { type: 'string', description: 'Another one.' },
          },
        },
      },
    },
    { anyOf: [{ required: ['pattern'] }, { required: ['words'] }], dependentRequired: { not: ['pattern'] } },
  ),
  check({ pattern = '', words = [], wait }, { policy, id, mode, folder = '' }) {
    const plus = pattern.indexOf('+')
    const spellings = words.map(each => each.word)
    return [
      ...(plus < 0 ? [] : [{ at: '/pattern', message: `"${pattern.slice(0, plus + 1)}" has no end` }]),
      ...(/-key-/.test(pattern) ? [{ at: '/pattern', message: `it says "${pattern.slice(0, 8)}"` }] : []),
      ...(pattern === 'whole' ? [{ at: '', message: 'all of it is wrong' }] : []),
      ...(pattern === 'default' ? [{ at: '/wait', message: 'wait is 1s' }] : []),
      ...(wait > 60_000 ? [{ at: '/wait', message: `${wait} ms are too long` }] : []),
      ...(pattern === 'place' ? [{ at: '/pattern', message: [policy, id, mode, basename(folder)].join(' ') }] : []),
      ...spellings.flatMap((word, i) =>
        spellings.indexOf(word) < i ? [{ at: `/words/${i}/word`, message: `"${word}" is there twice` }] : [],
      ),
    ]
  },
  create: pass,
})
/** Plugins whose `check` throws, or returns an invalid result. */
const grumpy = definePlugin({
  name: 'grumpy',
  settings: settings({}),
  check: () => {
    throw new Error('no comment')
  },
  create: pass,
})
const vague = definePlugin({
  name: 'vague',
  settings: settings({}),
  check: () => ['something is wrong'] as never,
  create: pass,
})

export const standIns: readonly AnyPlugin[] = [
  apiKey,
  schema,
  rateLimit,
  credits,
  route,
  remark,
  moody,
  gauge,
  rewriter,
  gloomy,
  greedy,
  diary,
]

/** Plugins that the generated mistakes do not use. */
const OTHERS: readonly AnyPlugin[] = [picky, grumpy, vague, loner, shy]

export function registry(): Registry {
  return createRegistry([...standIns, ...OTHERS])
}
