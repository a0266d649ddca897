/** Which media a target's model reads: as configured, else as its family is known to. */
import { MODALITIES, type Modality } from '#contract'
import type { DialectName, ProfileName } from '../providers/dialects/dialect-names.ts'
import type { ProviderShape } from './file-shapes.ts'

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

/** By a part of the provider's name for a model: a kind of model that may read everything, whatever family it was made from. */
const READERS =
  /vl(?!lm)|(?:\b|\d)v\b|vision|visual|image|video|omni|multimodal|audio|voice|speech|transcri|realtime|ocr|\basr\b|livetranslate|caption|janus|llava|vila|minicpm|ultravox/

/** Behind a version: no further number, which is another model, unless it is a size (`8b`), a date or has a point (`1.5b`). */
const MAJOR = String.raw`(?![\d.p_]|-\d(?![\d.b]))`

/** The name of a maker or a folder may be before it. What has another name before it is another model. */
const family = (names: string) => new RegExp(`(?:^|[/.:])(?:${names})`)

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
 * Families of models by the provider's name for them, in lower case; the first row counts. A model without a row may read
 * everything. Facts as of November 2026, from the providers' lists of models. In versions, Fireworks writes `p` for a point,
 * and Bedrock a hyphen.
 */
const FAMILIES: readonly (readonly [name: RegExp, reads: readonly Media[]])[] = [
  [/claude-(?:instant|v?[12](?!\d))/, []],
  [/claude/, ['image', 'file']],
  [family('gpt-oss'), []],
  [family(String.raw`gpt-3\.?5|o1-(?:mini|preview)|o3-mini`), []],
  [family(String.raw`(?:chat)?gpt-(?:4o|4\.1|5)`), ['image', 'file']],
  [family(String.raw`deepseek[.-](?:v[1-4]|r1|chat|reasoner|coder|llm|math|prover|moe)(?!\d)`), []],
  [family(`glm-(?:4|4[.p_-][5-7]|5)(?!v)${MAJOR}`), []],
  [family(`(?:meta-)?llama-?v?3(?:[.p_-][13])?${MAJOR}`), []],
  [family(`qwen-?(?:2(?:[.p_-]5)?|3)${MAJOR}|qwq`), []],
  [family(`kimi-k2${MAJOR}`), []],
  [family(`minimax-m2${MAJOR}`), []],
  [family('mistral-large-24|mi[sx]tral-(?:7b|8x)|open-mi[sx]tral|codestral'), []],
  [family(String.raw`(?:c4ai-)?command-(?:r(?:7b)?\b|a(?:-0|-reasoning|-translate|[:@]|$))`), []],
  [family('titan-text'), []],
  [family('nova-micro'), []],
  [family('nova-(?:lite|pro|premier|2-lite)'), ['image', 'video', 'file']],
]

/** https://openrouter.ai/docs/guides/overview/multimodal/pdfs */
const OPENROUTER = /^https?:\/\/(?:[^/]+\.)?openrouter\.ai(?:[:/]|$)/i
/** Converse takes the text out of documents for models that read text only, except these. */
const WITHOUT_DOCUMENTS = /titan-text-premier|nova-micro/

/** Whether a dialect has requests of another form than OpenAI's. */
export const isTranslated = (dialect: DialectName | 'demo') => CARRIED[dialect] !== undefined

type Place = Partial<Pick<ProviderShape, 'dialect' | 'profile' | 'base_url'>>

/** Undefined: everything that the dialect carries. */
export function modalitiesOf(
  place: Place,
  model: string,
  configured: readonly Modality[] | undefined,
): readonly Modality[] | undefined {
  if (configured !== undefined) return ['text', ...configured.filter(each => each !== 'text')]
  const { dialect = 'demo' } = place
  const carried = CARRIED[dialect]
  const known = familyOf(place, model.toLowerCase())
  if (known === null && carried === undefined) return undefined
  return MODALITIES.filter(
    each => each === 'text' || ((known ?? MODALITIES).includes(each) && (carried ?? MODALITIES).includes(each)),
  )
}

function familyOf(place: Place, model: string): readonly Modality[] | null {
  const reads = READERS.test(model) ? null : (FAMILIES.find(([name]) => name.test(model))?.[1] ?? null)
  if (reads === null || reads.includes('file') || !readsDocumentsFor(place, model)) return reads
  return [...reads, 'file']
}

/** Whether the provider reads documents itself and gives the model their text. */
function readsDocumentsFor({ dialect, profile, base_url }: Place, model: string): boolean {
  if (dialect === 'bedrock') return !WITHOUT_DOCUMENTS.test(model)
  return (
    dialect === 'openai' && (profile === 'openrouter' || (profile === undefined && OPENROUTER.test(base_url ?? '')))
  )
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
