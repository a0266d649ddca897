/** The media that a target's model reads: as configured, else by its model family. */
import { MODALITIES, type Modality } from '#contract'
import type { DialectName, ProfileName } from '../providers/dialects/dialect-names.ts'
import type { ProviderShape } from './file-shapes.ts'

type Media = Exclude<Modality, 'text'>

/** The media besides text that a translating dialect supports. */
const SUPPORTED: Readonly<Partial<Record<DialectName | 'demo', readonly Media[]>>> = {
  anthropic: ['image', 'file'],
  'vertex-anthropic': ['image', 'file'],
  'bedrock-invoke': ['image', 'file'],
  bedrock: ['image', 'audio', 'file'],
  gemini: ['image', 'audio', 'file'],
  vertex: ['image', 'audio', 'file'],
  cohere: ['image'],
  ollama: ['image'],
}

/** Parts of model names that mark multimodal models. Such a model may read all media, regardless of its family. */
const READERS =
  /vl(?!lm)|(?:\b|\d)v\b|vision|visual|image|video|omni|multimodal|audio|voice|speech|transcri|realtime|ocr|\basr\b|livetranslate|caption|janus|llava|vila|minicpm|ultravox/

/** Follows a version: no further number (another model), unless it is a size (`8b`), a date or has a point (`1.5b`). */
const MAJOR = String.raw`(?![\d.p_]|-\d(?![\d.b]))`

/** A vendor or a folder may precede the name. After any other text it is another model. */
const familyName = (names: string) => new RegExp(`(?:^|[/.:])(?:${names})`)

/**
 * The media besides text that variants of OpenAI's format support. Variants without a row support all. Their dialects reject
 * the others (openai/quirks.ts); a test compares the two.
 */
const OF_COMPATIBLE: Readonly<Partial<Record<DialectName | ProfileName | 'demo', readonly Media[]>>> = {
  deepseek: [],
  groq: ['image'],
  perplexity: ['image', 'video', 'file'],
  together: ['image', 'audio', 'video'],
  fireworks: ['image', 'video'],
  cerebras: ['image'],
}

/**
 * Model families, matched against the provider's model name in lower case; the first row counts. A model without a row may
 * read all media. As of November 2026, from the providers' model lists. In versions, Fireworks writes `p` for a point, and
 * Bedrock a hyphen.
 */
const FAMILIES: readonly (readonly [name: RegExp, reads: readonly Media[]])[] = [
  [/claude-(?:instant|v?[12](?!\d))/, []],
  [/claude/, ['image', 'file']],
  [familyName('gpt-oss'), []],
  [familyName(String.raw`gpt-3\.?5|o1-(?:mini|preview)|o3-mini`), []],
  [familyName(String.raw`(?:chat)?gpt-(?:4o|4\.1|5)`), ['image', 'file']],
  [familyName(String.raw`deepseek[.-](?:v[1-4]|r1|chat|reasoner|coder|llm|math|prover|moe)(?!\d)`), []],
  [familyName(`glm-(?:4|4[.p_-][5-7]|5)(?!v)${MAJOR}`), []],
  [familyName(`(?:meta-)?llama-?v?3(?:[.p_-][13])?${MAJOR}`), []],
  [familyName(`qwen-?(?:2(?:[.p_-]5)?|3)${MAJOR}|qwq`), []],
  [familyName(`kimi-k2${MAJOR}`), []],
  [familyName(`minimax-m2${MAJOR}`), []],
  [familyName('mistral-large-24|mi[sx]tral-(?:7b|8x)|open-mi[sx]tral|codestral'), []],
  [familyName(String.raw`(?:c4ai-)?command-(?:r(?:7b)?\b|a(?:-0|-reasoning|-translate|[:@]|$))`), []],
  [familyName('titan-text'), []],
  [familyName('nova-micro'), []],
  [familyName('nova-(?:lite|pro|premier|2-lite)'), ['image', 'video', 'file']],
]

/** https://openrouter.ai/docs/guides/overview/multimodal/pdfs */
const OPENROUTER = /^https?:\/\/(?:[^/]+\.)?openrouter\.ai(?:[:/]|$)/i
/** Converse extracts the text of documents for text-only models, except for these. */
const WITHOUT_DOCUMENTS = /titan-text-premier|nova-micro/

/** Whether a dialect's requests differ from OpenAI's format. */
export const isTranslated = (dialect: DialectName | 'demo') => SUPPORTED[dialect] !== undefined

type Place = Partial<Pick<ProviderShape, 'dialect' | 'profile' | 'base_url'>>

/** Undefined: all media that the dialect supports. */
export function modalitiesOf(
  place: Place,
  model: string,
  configured: readonly Modality[] | undefined,
): readonly Modality[] | undefined {
  if (configured !== undefined) return ['text', ...configured.filter(each => each !== 'text')]
  const { dialect = 'demo' } = place
  const supported = SUPPORTED[dialect]
  const family = familyOf(place, model.toLowerCase())
  if (family === null && supported === undefined) return undefined
  return MODALITIES.filter(
    each => each === 'text' || ((family ?? MODALITIES).includes(each) && (supported ?? MODALITIES).includes(each)),
  )
}

function familyOf(place: Place, model: string): readonly Modality[] | null {
  const reads = READERS.test(model) ? null : (FAMILIES.find(([name]) => name.test(model))?.[1] ?? null)
  if (reads === null || reads.includes('file') || !readsDocumentsFor(place, model)) return reads
  return [...reads, 'file']
}

/** Whether the provider extracts the text of documents for the model. */
function readsDocumentsFor({ dialect, profile, base_url }: Place, model: string): boolean {
  if (dialect === 'bedrock') return !WITHOUT_DOCUMENTS.test(model)
  return (
    dialect === 'openai' && (profile === 'openrouter' || (profile === undefined && OPENROUTER.test(base_url ?? '')))
  )
}

/** The first modality that the dialect or profile does not support, and those that it does; null if it supports all. */
export function unsupportedModality(
  name: DialectName | ProfileName | 'demo',
  configured: readonly Modality[],
): { readonly modality: Modality; readonly supported: readonly Modality[] } | null {
  const supported: readonly Modality[] = [
    'text',
    ...(SUPPORTED[name as DialectName] ?? OF_COMPATIBLE[name] ?? MODALITIES),
  ]
  const modality = configured.find(each => !supported.includes(each))
  return modality === undefined ? null : { modality, supported }
}
