/** Which media a target's model reads: as configured, else as its family is known to. */
import { MODALITIES, type Modality } from '#contract'
import type { DialectName, ProfileName } from './configuration.ts'

type Media = Exclude<Modality, 'text'>

/** Media that a translating dialect carries beside text. */
const CARRIED: Readonly<Partial<Record<DialectName | 'demo', readonly Media[]>>> = {
  anthropic: ['image', 'file'],
  'vertex-anthropic': ['image', 'file'],
  'bedrock-invoke': ['image', 'file'],
  bedrock: ['image', 'audio', 'file'],
  gemini: ['image', 'audio', 'file'],
  vertex: ['image', 'audio', 'file'],
  cohere: ['image'],
  ollama: ['image'],
}

/**
 * Media that relatives of OpenAI have parts for, beside text; those without a row have parts for all. They refuse the others by
 * themselves (openai/quirks.ts); a test compares the two.
 */
const OF_RELATIVES: Readonly<Partial<Record<DialectName | ProfileName | 'demo', readonly Media[]>>> = {
  deepseek: [],
  groq: ['image'],
  perplexity: ['image', 'video', 'file'],
  together: ['image', 'audio', 'video'],
  fireworks: ['image', 'video'],
  cerebras: ['image'],
}

/**
 * Families of models by a part of the provider's name for them, in lower case; the first row counts. Null: it may read
 * everything, as a model without a row may. Facts as of November 2026, from the providers' lists of models. Fireworks writes `p`
 * for a point, and Bedrock a hyphen.
 */
const FAMILIES: readonly (readonly [name: RegExp, reads: readonly Media[] | null])[] = [
  [/(?:\b|\d)vl|vision|omni|multimodal|audio|realtime|ocr|\basr\b|janus|llava|minicpm|ultravox/, null],
  [/claude/, ['image', 'file']],
  [/gpt-oss/, []],
  [/gpt-3\.?5|o1-(?:mini|preview)|o3-mini/, []],
  [/gpt-(?:4o|4\.1|5)/, ['image', 'file']],
  [/deepseek/, []],
  [/glm-(?:4|4[.p][5-7]|5)(?![\dvp.])/, []],
  [/llama-?v?3(?:[.p-][13])?(?![\d.p]|-2)/, []],
  [/qwen-?(?:2(?:[.p]5)?|3)(?![\d.p])|qwq/, []],
  [/kimi-k2(?![.p]\d)/, []],
  [/minimax-m2(?![.p]\d)/, []],
  [/mistral-large-24|mi[sx]tral-(?:7b|8x)|open-mi[sx]tral|codestral/, []],
  [/command-(?:r|a(?!-plus))/, []],
  [/titan-text/, []],
  [/nova-micro/, []],
  [/nova-(?:2-)?(?:lite|pro|premier)/, ['image', 'video', 'file']],
]

/** Converse takes the text out of documents for models that read text only, except these. */
const WITHOUT_DOCUMENTS = /titan-text-premier|nova-micro/

/** Whether a dialect has requests of another form than OpenAI's. */
export const isTranslated = (dialect: DialectName | 'demo') => CARRIED[dialect] !== undefined

/** Undefined: everything that the dialect carries. */
export function modalitiesOf(
  dialect: DialectName | 'demo',
  model: string,
  configured: readonly Modality[] | undefined,
): readonly Modality[] | undefined {
  if (configured !== undefined) return ['text', ...configured.filter(each => each !== 'text')]
  const carried = CARRIED[dialect]
  const known = familyOf(dialect, model.toLowerCase())
  if (known === null && carried === undefined) return undefined
  return MODALITIES.filter(
    each => each === 'text' || ((known ?? MODALITIES).includes(each) && (carried ?? MODALITIES).includes(each)),
  )
}

function familyOf(dialect: DialectName | 'demo', model: string): readonly Modality[] | null {
  const reads = FAMILIES.find(([name]) => name.test(model))?.[1] ?? null
  if (reads === null || dialect !== 'bedrock' || WITHOUT_DOCUMENTS.test(model)) return reads
  return [...reads, 'file']
}

/** The first that the dialect or profile has no form for, and those that it has; null when it has a form for all. */
export function uncarried(
  name: DialectName | ProfileName | 'demo',
  configured: readonly Modality[],
): { readonly modality: Modality; readonly carried: readonly Modality[] } | null {
  const carried: readonly Modality[] = ['text', ...(CARRIED[name as DialectName] ?? OF_RELATIVES[name] ?? MODALITIES)]
  const modality = configured.find(each => !carried.includes(each))
  return modality === undefined ? null : { modality, carried }
}
