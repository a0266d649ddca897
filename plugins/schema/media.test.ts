/** Media that no target of a model reads are refused before credit is held. */
import { expect, test } from 'vitest'
import type { Catalog, Modality, Model } from '#contract'
import { createSteps } from '../../test/helpers/step.ts'
import schema from './index.ts'
import { MODEL } from './test-bodies.ts'

const target = (model: string, ...reads: Modality[]) => ({
  id: `p/${model}`,
  provider: 'p',
  model,
  weight: 1,
  cost: null,
  capField: 'max_tokens' as const,
  reasoningOutsideCap: 0,
  priority: 1,
  maxInflight: 1,
  ...(reads.length > 0 ? { inputModalities: reads } : {}),
})
const models: Model[] = [
  { ...MODEL, id: 'text', targets: [target('a', 'text')] },
  { ...MODEL, id: 'some', targets: [target('a', 'text'), target('b', 'text', 'image')] },
  { ...MODEL, id: 'all', targets: [target('a', 'text'), target('b')] },
]
const catalog: Catalog = { find: id => models.find(model => model.id === id), list: () => models }
const run = createSteps([{ use: schema, with: { unknown_fields: 'pass' } }], { catalog })

const PARTS = {
  text: { type: 'text', text: 'Hi' },
  image: { type: 'image_url', image_url: { url: 'https://a.example/cat.png' } },
  audio: { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
  video: { type: 'video_url', video_url: { url: 'https://a.example/cat.mp4' } },
  file: { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' } },
  unknown: { type: 'hologram' },
}

test.each<[model: string, read: readonly (keyof typeof PARTS)[]]>([
  ['text', ['text', 'unknown']],
  ['some', ['text', 'unknown', 'image']],
  ['all', ['text', 'unknown', 'image', 'audio', 'video', 'file']],
])('a model that reads %s', async (model, read) => {
  for (const name of Object.keys(PARTS) as (keyof typeof PARTS)[]) {
    const messages = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: [PARTS.text, PARTS[name]] },
    ]
    const { refusal } = await run({ body: { model, messages } })
    const refused = { code: 'unsupported_parameter', status: 400, param: 'messages[1].content[1]' }
    if (read.includes(name)) expect(refusal, name).toBeFalsy()
    else expect(refusal, name).toMatchObject(refused)
  }
})
