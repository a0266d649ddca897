/** How many answers a request may ask for: what the configuration says of each dialect is what the dialect takes. */
import { expect, test } from 'vitest'
import { type Chat, isRefusal, MAX_CHOICES, type Target } from '#contract'
import { DIALECT_NAMES, type DialectName } from '../../../src/config/configuration.ts'
import { CHOICES_OF } from '../../../src/config/models.ts'
import { createDialect } from '../../../src/providers/dialects/index.ts'

const target = {
  id: 'p/x',
  provider: 'p',
  model: 'anthropic.claude-sonnet-4',
  capField: 'max_tokens',
  reasoningOutsideCap: 0,
} as unknown as Target

function complaint(name: DialectName, choices: number): string | null {
  const body = { model: 'm', messages: [{ role: 'user', content: 'Hello' }], n: choices }
  const bytes = Buffer.from(JSON.stringify(body))
  const chat: Chat = { body, bytes, stream: false, includeUsage: false, choices, requestedCap: 100, cap: 100 }
  try {
    createDialect(name, () => 0).dialect.encodeRequest(chat, target)
    return null
  } catch (error) {
    if (isRefusal(error)) return error.param
    throw error
  }
}

test.each(DIALECT_NAMES)('%s', name => {
  const most = CHOICES_OF[name] ?? MAX_CHOICES
  expect(complaint(name, most)).toBeNull()
  if (most < MAX_CHOICES) expect(complaint(name, most + 1)).toBe('n')
})
