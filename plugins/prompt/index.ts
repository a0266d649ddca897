/**
 * Adds a system message of the operator before or after the messages of the client, or replaces the client's. The client pays for it, so
 * it is added before credit is held.
 */
import { definePlugin, type FactName, type StepContext } from '#contract'
import { isInstruction } from './messages.ts'
import { compileText, placesIn, TEXT } from './text.ts'

interface Settings {
  readonly system: string
  readonly position: 'before' | 'after' | 'replace'
  readonly only_if_missing: boolean
}

export default definePlugin({
  name: 'prompt',
  description: "Adds a system message to each request, or replaces the client's with it.",
  dryRun: true,
  needs: ({ system }: Settings): readonly FactName[] => {
    const places = placesIn(system)
    return [
      'chat',
      ...(places.includes('account.plan') ? (['account'] as const) : []),
      ...(places.includes('model') ? (['model'] as const) : []),
    ]
  },
  // A request that grows after its hold could cost more than that.
  before: ['hold'],
  // Instructions of the client and of another step look the same.
  precedes: ({ position, only_if_missing }: Settings) => (position === 'replace' || only_if_missing ? ['prompt'] : []),
  uses: ['clock'],
  settings: {
    type: 'object',
    additionalProperties: false,
    required: ['system'],
    properties: {
      system: {
        type: 'string',
        minLength: 1,
        maxLength: 100_000,
        pattern: TEXT,
        sentence: 'may hold {{date}}, {{account.plan}} and {{model}}, and no other "{{"',
        description: 'The message. {{date}} (UTC), {{account.plan}} and {{model}} are filled in.',
      },
      position: {
        enum: ['before', 'after', 'replace'],
        default: 'before',
        description:
          "The place of the message: before all messages, after them, or before them in place of the client's own instructions.",
      },
      only_if_missing: {
        type: 'boolean',
        default: false,
        description: 'Whether a request with instructions of its own stays unchanged.',
      },
    },
    if: { properties: { only_if_missing: { const: true } }, required: ['only_if_missing'] },
    then: {
      properties: {
        position: {
          not: { const: 'replace' },
          sentence: 'cannot be replace: with only_if_missing there is nothing to replace',
        },
      },
    },
  },
  create({ system, position, only_if_missing }: Settings, { clock }) {
    const text = compileText(system)
    const decide = ({ exchange }: StepContext) => {
      // The loader has checked that this fact and those of the text exist.
      const { messages } = exchange.chat!.body
      if (only_if_missing && messages.some(isInstruction)) {
        exchange.note('the client sent instructions of its own')
        return
      }
      const content = text({
        date: new Date(clock.now()).toISOString().slice(0, 10),
        'account.plan': exchange.account?.plan ?? '',
        model: exchange.model?.id ?? '',
      })
      const ours = { role: 'system', content }
      const theirs = position === 'replace' ? messages.filter(message => !isInstruction(message)) : messages
      exchange.rewrite({ messages: position === 'after' ? [...theirs, ours] : [ours, ...theirs] }, [ours])
    }
    return { decide }
  },
})
