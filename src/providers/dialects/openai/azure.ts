/** Where Azure takes chat completions, and as whom. */
import type { Quirks } from './profile.ts'
import { AZURE, AZURE_BEFORE, FOUNDRY } from './quirks.ts'

/** Which of Azure's APIs is asked, and as whom; the configuration says it. */
export interface AzurePlace {
  /**
   * `v1`: OpenAI's own API, with the deployment as the model; `foundry`: for models of all makers; `classic`: has the
   * deployment in its path.
   */
  readonly api: 'v1' | 'foundry' | 'classic'
  /** `2024-10-21` or `2024-12-01-preview`; null where none is needed. */
  readonly apiVersion: string | null
  /** Whether the credentials are keys of the resource or access tokens of Entra. */
  readonly auth: 'api-key' | 'bearer'
}

export interface AzureApi {
  path(model: string): string
  readonly headers: Readonly<Record<string, string>>
  readonly quirks: Quirks
}

/** The way of a request to one of the doors. */
export function azureApi({ api, apiVersion }: AzurePlace): AzureApi {
  const query = apiVersion === null ? '' : `?api-version=${encodeURIComponent(apiVersion)}`
  if (api !== 'classic') {
    const path = `/chat/completions${query}`
    // Without this header Foundry refuses parameters that are not in its own list, `stream_options` for one.
    const headers: Readonly<Record<string, string>> = api === 'foundry' ? { 'extra-parameters': 'pass-through' } : {}
    return { path: () => path, headers, quirks: api === 'foundry' ? FOUNDRY : AZURE }
  }
  const isBefore = ([version]: (typeof AZURE_BEFORE)[number]) => apiVersion !== null && apiVersion < version
  return {
    path: model => `/openai/deployments/${encodeURIComponent(model)}/chat/completions${query}`,
    headers: {},
    quirks: AZURE_BEFORE.find(isBefore)?.[1] ?? AZURE,
  }
}

/** What says who we are. */
export function azureHeaders(credential: string, { auth }: Pick<AzurePlace, 'auth'>): Record<string, string> {
  return auth === 'bearer' ? { authorization: `Bearer ${credential}` } : { 'api-key': credential }
}
