/**
 * The dialects by their name in the configuration: the wire format, and the headers that authenticate a request. To add one: a folder,
 * a row here, its name in `dialect-names.ts`.
 */
import type { Dialect, EncodedRequest } from '#contract'
import { anthropicDialect, anthropicHeaders } from './anthropic/index.ts'
import {
  type AwsCredentials,
  authorizeBedrock,
  bedrockDialect,
  bedrockInvokeDialect,
  signRequest,
} from './bedrock/index.ts'
import { cohereDialect } from './cohere/index.ts'
import type { Redact } from './failure.ts'
import { geminiDialect, geminiHeaders, vertexHeaders } from './gemini/index.ts'
import { ollamaDialect } from './ollama/index.ts'
import {
  type AzurePlace,
  azureDialect,
  azureHeaders,
  type CompatibleName,
  compatibleDialect,
  openAiDialect,
  type ProfileName,
} from './openai/index.ts'
import { readingEvents, readingWhole } from './swapped.ts'

/** A provider's API key, or a pair of AWS keys with the region they sign for. */
export type Credential = string | (AwsCredentials & { readonly region: string })

/** The request to be signed, as it will be sent. */
export interface UnsignedRequest extends Pick<EncodedRequest, 'headers' | 'body'> {
  /** Default: POST, which every dialect sends. */
  readonly method?: string
  /** The host that the request goes to. */
  readonly host: string
  /** Includes the base URL's path, without the query. */
  readonly path: string
  readonly query: string
}

/** Returns the headers that authenticate a request. */
export type Authorize = (credential: Credential, request: UnsignedRequest, nowMs: number) => Record<string, string>

interface Row {
  create(now: () => number, redact?: Redact, host?: string, profile?: ProfileName): Dialect
  readonly authorize: Authorize
}

const bearer: Authorize = credential => ({ authorization: `Bearer ${keyOf(credential)}` })

/** Signs the headers that AWS checks. A proxy may change the others. */
const aws: Authorize = (credential, { method = 'POST', host, path, query, headers, body }, nowMs) => {
  if (typeof credential === 'string') return authorizeBedrock(credential)
  const { region, ...credentials } = credential
  const covered = { host, 'content-type': 'application/json', ...headers }
  return signRequest({
    method,
    path,
    query,
    headers: covered,
    body,
    region,
    service: 'bedrock',
    credentials,
    nowMs,
  })
}

/** The default: OpenAI's own API on Azure. Other providers on Azure pass their own place. */
const AZURE: AzurePlace = { api: 'v1', apiVersion: null, auth: 'api-key' }

const azure = (place: AzurePlace): Row => ({
  create: (now, redact) => azureDialect(now, redact, place),
  authorize: credential => azureHeaders(keyOf(credential), place),
})

const compatible = (name: CompatibleName): Row => ({
  create: (now, redact) => compatibleDialect(name, now, redact),
  authorize: bearer,
})

const DIALECTS = {
  openai: { create: openAiDialect, authorize: bearer },
  azure: azure(AZURE),
  mistral: compatible('mistral'),
  deepseek: compatible('deepseek'),
  groq: compatible('groq'),
  perplexity: compatible('perplexity'),
  together: compatible('together'),
  zai: compatible('zai'),
  anthropic: {
    create: (now, redact) => anthropicDialect(now, redact),
    authorize: credential => anthropicHeaders(keyOf(credential)),
  },
  'vertex-anthropic': {
    create: (now, redact) => anthropicDialect(now, redact, { addressing: 'vertex' }),
    authorize: credential => vertexHeaders(keyOf(credential)),
  },
  gemini: {
    create: (now, redact) => geminiDialect(now, redact),
    authorize: credential => geminiHeaders(keyOf(credential)),
  },
  vertex: {
    create: (now, redact) => geminiDialect(now, redact, { platform: 'vertex' }),
    authorize: credential => vertexHeaders(keyOf(credential)),
  },
  bedrock: { create: bedrockDialect, authorize: aws },
  'bedrock-invoke': { create: bedrockInvokeDialect, authorize: aws },
  cohere: { create: cohereDialect, authorize: bearer },
  ollama: { create: ollamaDialect, authorize: bearer },
} as const satisfies Readonly<Record<string, Row>>

/** Dialects whose stream decoders cannot read a whole answer. */
const STREAMS_ONLY: ReadonlySet<string> = new Set([
  'anthropic',
  'vertex-anthropic',
  'bedrock',
  'bedrock-invoke',
  'cohere',
] satisfies DialectName[])

export type DialectName = keyof typeof DIALECTS

/**
 * @param now milliseconds since the epoch
 * @param redact removes the gateway's own secrets from a provider's words
 * @param place of a provider on Azure
 * @param host of the provider, without a port
 * @param profile of a provider whose dialect is `openai`
 */
export function createDialect(
  name: DialectName,
  now: () => number,
  redact?: Redact,
  place: AzurePlace = AZURE,
  host = '',
  profile?: ProfileName,
): { readonly dialect: Dialect; readonly authorize: Authorize } {
  const { create, authorize }: Row = name === 'azure' ? azure(place) : DIALECTS[name]
  const dialect = readingEvents(create(now, redact, host, profile))
  return { dialect: STREAMS_ONLY.has(name) ? readingWhole(dialect) : dialect, authorize }
}

function keyOf(credential: Credential): string {
  if (typeof credential === 'string') return credential
  throw new TypeError(
    'a pair of AWS keys works with the dialects bedrock and bedrock-invoke only; this dialect needs an api_key',
  )
}
