/**
 * How the `base_url` of a well-known provider ends. A part too few or too many is the commonest mistake with a new
 * provider, and it shows up only as a 404 to the first client; other hosts (a proxy, say) are left alone.
 */
import type { DialectName } from '../providers/dialects/dialect-names.ts'
import { vendorAt } from '../providers/dialects/vendors.ts'

interface Ending {
  readonly host: RegExp
  /** Of the path, without a slash at its end. */
  readonly path: RegExp
  readonly example: string
}

const VERTEX = /(^|[.-])aiplatform\.googleapis\.com$/
const BEDROCK: Ending = {
  host: /^bedrock-runtime[a-z0-9.-]*\.amazonaws\.com$/,
  path: /^$/,
  example: 'https://bedrock-runtime.eu-central-1.amazonaws.com',
}

const ENDINGS: Readonly<Partial<Record<DialectName, Ending>>> = {
  openai: { host: /^api\.openai\.com$/, path: /^\/v1$/, example: 'https://api.openai.com/v1' },
  anthropic: { host: /^api\.anthropic\.com$/, path: /^\/v1$/, example: 'https://api.anthropic.com/v1' },
  gemini: {
    host: /^generativelanguage\.googleapis\.com$/,
    path: /^\/v1(alpha|beta)?$/,
    example: 'https://generativelanguage.googleapis.com/v1beta',
  },
  vertex: {
    host: VERTEX,
    path: /\/projects\/[^/]+\/locations\/[^/]+\/publishers\/google$/,
    example: 'https://aiplatform.googleapis.com/v1/projects/PROJECT/locations/global/publishers/google',
  },
  'vertex-anthropic': {
    host: VERTEX,
    path: /\/projects\/[^/]+\/locations\/[^/]+\/publishers\/anthropic$/,
    example: 'https://aiplatform.googleapis.com/v1/projects/PROJECT/locations/global/publishers/anthropic',
  },
  bedrock: BEDROCK,
  'bedrock-invoke': BEDROCK,
  mistral: { host: /^api\.mistral\.ai$/, path: /^\/v1$/, example: 'https://api.mistral.ai/v1' },
  groq: { host: /^api\.groq\.com$/, path: /^\/openai\/v1$/, example: 'https://api.groq.com/openai/v1' },
  cohere: { host: /^api\.cohere\.(com|ai)$/, path: /^\/v2$/, example: 'https://api.cohere.com/v2' },
  ollama: { host: /./, path: /^((?!\/(v1|api)$).)*$/, example: 'http://127.0.0.1:11434' },
}

/** What the base URL should look like when it cannot be right; null when nothing speaks against it. */
export function likelierBaseUrl(dialect: DialectName | 'demo', { hostname, pathname }: URL): string | null {
  const ending = dialect === 'demo' ? undefined : ENDINGS[dialect]
  if (!ending?.host.test(hostname)) return null
  return ending.path.test(pathname.replace(/\/+$/, '')) ? null : ending.example
}

/** Whether a host belongs to a well-known provider. */
export function isWellKnown({ hostname }: URL): boolean {
  return vendorAt(hostname) !== undefined
}

/** What a host speaks in place of a dialect; null when it speaks that one, or the table of vendors does not have it. */
export function spokenInstead(dialect: DialectName | 'demo', { hostname }: URL): readonly DialectName[] | null {
  const vendor = vendorAt(hostname)
  if (vendor === undefined || dialect === 'demo') return null
  const spoken = [vendor.dialect, ...(vendor.alsoSpeaks ?? [])]
  return spoken.includes(dialect) ? null : spoken
}
