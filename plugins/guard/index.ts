/**
 * Searches requests and answers for patterns of the policy and for built-in ones (e-mail addresses, card numbers, keys). A match
 * is replaced, refused or only noted. A stream withholds text that may still become a match. Matches are never written
 * to the trail, the log or an error.
 */
import { addressGroup, type Chat, type Chunk, definePlugin, type Exchange, type ExchangeWith, slices } from '#contract'
import { AnswerGuard } from './answer.ts'
import { DETECTORS } from './detectors.ts'
import { changesWith, guardTexts, textsOf } from './request.ts'
import { costOf, Findings, problemsOf, type RuleText, readRules } from './rules.ts'
import { guardThread, THREAD_FROM } from './thread.ts'

interface Settings {
  readonly rules: readonly RuleText[]
  readonly window: number
}

export default definePlugin({
  name: 'guard',
  description: 'Replaces, refuses or notes matches of patterns in requests and answers.',
  dryRun: true,
  needs: ['chat'],
  // A replacement may be longer than its match, and the hold must cover the request that is sent.
  before: ({ rules }: Settings) =>
    rules.some(({ on, action }) => on !== 'answer' && action === 'redact') ? ['hold'] : [],
  settings: {
    type: 'object',
    additionalProperties: false,
    required: ['rules'],
    properties: {
      rules: {
        type: 'array',
        minItems: 1,
        maxItems: 50,
        description: 'The rules, in their order: each searches the text that the one before has left.',
        items: {
          type: 'object',
          additionalProperties: false,
          oneOf: [{ required: ['detect'] }, { required: ['pattern'] }],
          dependentRequired: { pattern: ['name'] },
          properties: {
            name: {
              type: 'string',
              pattern: '^[a-z0-9][a-z0-9_-]{0,39}$',
              description: 'The name of the rule in the trail. Default: the value of detect.',
            },
            detect: { enum: Object.keys(DETECTORS), description: 'A built-in pattern.' },
            pattern: {
              type: 'string',
              minLength: 1,
              maxLength: 1000,
              description:
                'A regular expression with an upper bound, and without look-around or back-references: "Project [A-Z]{2,8}". Write it in single quotes: in double quotes YAML turns "\\b" into a control character.',
            },
            ignore_case: {
              type: 'boolean',
              default: false,
              description: 'Whether upper and lower case match each other.',
            },
            on: { enum: ['request', 'answer', 'both'], default: 'both', description: 'The texts that are searched.' },
            action: {
              enum: ['redact', 'refuse', 'flag'],
              default: 'redact',
              description:
                'redact: replace the match; refuse: end the exchange with content_filter; flag: only note the match.',
            },
            replace: {
              type: 'string',
              maxLength: 64,
              // The replacement may be placed in the JSON of a call's arguments.
              pattern: '^[^"\\\\\\u0000-\\u001f]*$',
              description: 'The replacement of a match. Default: the name in brackets.',
            },
          },
        },
      },
      window: {
        type: 'integer',
        minimum: 16,
        maximum: 4096,
        default: 256,
        description: 'The longest match, in characters. A stream withholds at most as much.',
      },
    },
  },
  check: ({ rules, window }: Settings) => problemsOf(rules, window),
  create({ rules: texts, window }: Settings) {
    const rules = readRules(texts, window)
    const onRequest = rules.filter(({ on }) => on !== 'answer')
    const onRequestTexts = texts.filter(({ on }) => on !== 'answer')
    const onAnswer = rules.filter(({ on }) => on !== 'request')
    const watch = (exchange: ExchangeWith<'chat'>, findings: Findings): Findings | null => {
      note(exchange, findings, 'request')
      if (onAnswer.length === 0) return null
      const guard = new AnswerGuard(onAnswer, findings, wantsJson(exchange.chat))
      exchange.edit(chunk => {
        if (!guard.isLong(chunk)) return guard.chunk(chunk)
        const guarded = slices.run(guard.chunkInSlices(chunk), exchange.signal)
        // Undefined: the client has disconnected.
        return guarded instanceof Promise ? guarded.then(orNone) : orNone(guarded)
      })
      return findings
    }
    return {
      async decide({ exchange }) {
        const findings = new Findings()
        try {
          const texts = textsOf(exchange.chat)
          const length = texts.reduce((sum, { text }) => sum + text.length, 0)
          const guarding =
            costOf(length, onRequest) < THREAD_FROM
              ? slices.run(guardTexts(texts, onRequest, findings), exchange.signal)
              : guardThread.guard(
                  { texts, rules: onRequestTexts },
                  exchange.account?.id ?? addressGroup(exchange.address),
                  findings,
                  exchange.signal,
                )
          const guarded = guarding instanceof Promise ? await guarding : guarding
          // Undefined: the client has disconnected. The request continues, but nothing is sent to the provider.
          if (guarded) exchange.rewrite(changesWith(exchange.chat, guarded))
        } catch (error) {
          note(exchange, findings, 'request')
          throw error
        }
        return watch(exchange, findings)
      },
      after({ exchange }, _outcome, findings: Findings | null) {
        if (findings !== null) note(exchange, findings, 'answer')
      },
    }
  },
})

/** Notes the number of matches of each rule in the trail. */
function note(exchange: Exchange, findings: Findings, side: 'request' | 'answer'): void {
  const text = findings.takeSummary(side)
  if (text !== null) exchange.note(text)
}

function orNone(chunks: readonly Chunk[] | undefined): readonly Chunk[] {
  return chunks ?? []
}

/** Whether the client requires a JSON answer. */
function wantsJson({ body }: Chat): boolean {
  const type = (body['response_format'] as { readonly type?: unknown } | null | undefined)?.type
  return type === 'json_object' || type === 'json_schema'
}
