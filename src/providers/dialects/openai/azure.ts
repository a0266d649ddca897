/** Paths and credentials of Azure's chat completions. */
import type { Quirks } from './profile.ts'
import { AZURE, AZURE_BEFORE, FOUNDRY } from './quirks.ts'

/** The Azure API and the kind of credentials, from the configuration. */
export interface AzurePlace {
  /**
   * `v1`: OpenAI's own API, with the deployment as the model; `foundry`: for models of all vendors; `classic`: has the deployment in
   * its path.
   */
  readonly api: 'v1' | 'foundry' | 'classic'
  /** `2024-10-21` or `2024-12-01-preview`; null if not needed. */
  readonly apiVersion: string | null
  /** Whether the credentials are keys of the resource or Entra access tokens. */
  readonly auth: 'api-key' | 'bearer'
}

export interface AzureApi {
  path(model: string): string
  readonly headers: Readonly<Record<string, string>>
  readonly quirks: Quirks
}

/** The path, headers and quirks of an API. */
export function azureApi({ api, apiVersion }: AzurePlace): AzureApi {
  const query = apiVersion === null ? '' : `?api-version=${encodeURIComponent(apiVersion)}`
  if (api !== 'classic') {
    const path = `/chat/completions${query}`
    // Without this header Foundry refuses parameters that are not in its list, such as `stream_options`.
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

/** The headers that authenticate a request. */
export function azureHeaders(credential: string, { auth }: Pick<AzurePlace, 'auth'>): Record<string, string> {
  return auth === 'bearer' ? { authorization: `Bearer ${credential}` } : { 'api-key': credential }
}
