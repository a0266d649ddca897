/** Generators of canonical chunk streams: as the translating dialects write them, and shuffled. */
import fc from 'fast-check'
import type { Chunk, Delta } from '#contract'
import { chunk, USAGE } from './support.ts'

const text = fc.string({ unit: 'binary', maxLength: 12 })
const wholeText = fc.constantFrom('', 'Hello', 'ü 😀\n', 'data: {}\n\n')

/** A text cut into pieces anywhere. */
const pieces = (whole: fc.Arbitrary<string>) =>
  fc.tuple(whole, fc.array(fc.nat(40))).map(([all, cuts]) => {
    const at = [0, ...cuts.filter(cut => cut < all.length).sort((a, b) => a - b), all.length]
    return at.slice(1).map((end, index) => all.slice(at[index], end))
  })

const thought = fc
  .tuple(pieces(fc.oneof(wholeText, text)), fc.option(fc.constantFrom('s1', 's2')))
  .map(([parts, signature]): Delta[] => [
    ...parts.map(part => ({ reasoning_content: part })),
    ...(signature ? [{ reasoning_details: [{ type: 'reasoning.text', text: parts.join(''), signature }] }] : []),
  ])
const sealed = fc.constant<Delta[]>([{ reasoning_details: [{ type: 'reasoning.encrypted', data: 'xyz' }] }])

const json = fc.oneof(
  fc.constant(''),
  fc.dictionary(text, fc.jsonValue({ maxDepth: 2 })).map(value => JSON.stringify(value)),
)
interface CallParts {
  readonly signature: string | null
  readonly parts: readonly string[]
}
const callParts: fc.Arbitrary<CallParts> = fc.record({
  signature: fc.option(fc.constantFrom('g1', 'g2')),
  parts: pieces(json),
})
const callDeltas = ({ signature, parts }: CallParts, index: number): Delta[] => [
  {
    tool_calls: [
      {
        index,
        id: `c${index}`,
        type: 'function',
        function: { name: 'look', arguments: '' },
        ...(signature ? { extra_content: { google: { thought_signature: signature } } } : {}),
      },
    ],
  },
  ...parts.map(part => ({ tool_calls: [{ index, function: { arguments: part } }] })),
]

const words = (name: 'content' | 'refusal') =>
  pieces(fc.oneof(wholeText, text)).map(parts => parts.map((part): Delta => ({ [name]: part })))

const ended = (deltas: readonly Delta[], finish: string, counted: boolean): Chunk[] => [
  chunk({ role: 'assistant', content: '' }),
  ...deltas.map(delta => chunk(delta)),
  chunk({}, {}, finish),
  ...(counted ? [chunk(null, { usage: USAGE })] : []),
]
const finish = fc.constantFrom('stop', 'length', 'tool_calls', 'content_filter')

/** Streams as translating dialects write them: signed reasoning or one unsigned piece, then text, then one call after the other. */
export const anyAnswer: fc.Arbitrary<Chunk[]> = fc
  .record({
    thoughts: fc.oneof(
      thought.map(one => [one]),
      fc.array(fc.oneof(sealed, thought.filter(isSigned)), { maxLength: 3 }),
    ),
    content: words('content'),
    refusal: fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: words('refusal') }),
    calls: fc.array(callParts, { maxLength: 3 }),
    finish,
    counted: fc.boolean(),
  })
  .map(({ thoughts, content, refusal, calls, finish, counted }) =>
    ended([...thoughts.flat(), ...content, ...refusal, ...calls.flatMap(callDeltas)], finish, counted),
  )

function isSigned(deltas: readonly Delta[]): boolean {
  return deltas.some(delta => delta['reasoning_details'])
}

/** Streams whose parts are shuffled; the pieces of each part keep their order. */
export const anyShuffledAnswer: fc.Arbitrary<Chunk[]> = fc
  .record({
    content: words('content'),
    thought: thought.filter(deltas => !isSigned(deltas)),
    calls: fc.array(callParts, { maxLength: 4 }),
    order: fc.array(fc.nat(5), { minLength: 30, maxLength: 30 }),
    finish,
    counted: fc.boolean(),
  })
  .map(({ content, thought, calls, order, finish, counted }) => {
    const lanes = [[...content], [...thought], ...calls.map(callDeltas)]
    const mixed: Delta[] = []
    for (const turn of order) {
      const next = lanes[turn % lanes.length]!.shift()
      if (next) mixed.push(next)
    }
    return ended([...mixed, ...lanes.flat()], finish, counted)
  })
