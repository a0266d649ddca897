/** Tables of src/config about profiles, compared with the profiles. */
import { afterAll, expect, test } from 'vitest'
import { unsupportedModality } from '../../src/config/modalities.ts'
import { MAX_TOKENS_ONLY } from '../../src/config/warnings.ts'
import { PROFILE_NAMES } from '../../src/providers/dialects/dialect-names.ts'
import type { Quirks } from '../../src/providers/dialects/openai/profile.ts'
import { PROFILES } from '../../src/providers/dialects/openai/quirks.ts'
import { read } from '../helpers/repository.ts'
import { openWorkshop } from './workshop.ts'

const workshop = openWorkshop()
afterAll(() => workshop.close())

const TYPES = {
  image: ['image_url'],
  audio: ['input_audio', 'audio_url'],
  video: ['video_url', 'input_video'],
  file: ['file', 'file_url', 'document_url'],
} as const

test.each(PROFILE_NAMES)('%s: its input modalities, and its field for the cap', name => {
  const { capField, messages }: Quirks = PROFILES[name]
  const known = messages?.parts && (messages.parts['user'] ?? new Set())
  const supported = Object.entries(TYPES).filter(
    ([, types]) => known === undefined || types.some(each => known.has(each)),
  )
  const accepted = (Object.keys(TYPES) as (keyof typeof TYPES)[]).filter(
    each => unsupportedModality(name, [each]) === null,
  )
  expect(accepted).toEqual(supported.map(([modality]) => modality))
  expect(MAX_TOKENS_ONLY.has(name)).toBe(capField === 'max_tokens')
})

test('the profile of a provider limits the number of choices', async () => {
  const providers = `providers:
  demo: { dialect: openai, profile: groq, base_url: "https://a.example/v1" }`
  const { models } = await workshop.good({ gateway: { providers } })
  expect(models.get('small')!.maxChoices).toBe(1)
})

test('the page of the dialects has a row for each profile', () => {
  const [, table] = read('src/providers/dialects/README.md').split('| Dialect | Refused |')
  const names = table!
    .split('\n\n')[0]!
    .split('\n')
    .flatMap(row => row.split('|')[1]?.match(/`[a-z-]+`/g) ?? [])
  expect(names).toEqual(expect.arrayContaining(PROFILE_NAMES.map(name => `\`${name}\``)))
})
