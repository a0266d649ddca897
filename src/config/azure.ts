/**
 * `providers` on Azure: finds the API from the end of `base_url` and checks the other keys against it. `/openai/v1` is
 * OpenAI's own API, with the deployment as the model. `/models` is Foundry's, for models of all vendors. Any other path is
 * the classic API, with the deployment in the path. The last two need an API version.
 */
import type { AzurePlace } from './configuration.ts'
import type { ProviderShape } from './file-shapes.ts'
import type { Source } from './yaml/source.ts'

/** Versions as in Azure's documentation: a date, often with `-preview`. */
const VERSION = /^(\d{4}-\d\d-\d\d(-preview)?|preview|latest|v1)$/

/** The API of a provider whose shape has no problems. */
export function azurePlaceOf({ base_url: baseUrl, api_version: apiVersion, auth }: ProviderShape): AzurePlace {
  return { api: apiOf(pathOf(baseUrl) ?? ''), apiVersion: apiVersion ?? null, auth: auth ?? 'api-key' }
}

function apiOf(path: string): AzurePlace['api'] {
  if (/\/v1$/.test(path)) return 'v1'
  return /\/models$/.test(path) ? 'foundry' : 'classic'
}

/** Without a trailing slash; null if it is not a URL. */
function pathOf(baseUrl: string | undefined): string | null {
  return URL.parse(baseUrl ?? '')?.pathname.replace(/\/+$/, '') ?? null
}

/** Checks the keys that only Azure accepts. @param at the provider's JSON pointer in the file */
export function checkAzure(source: Source, at: string, shape: Partial<ProviderShape>): void {
  if (shape.dialect !== 'azure') {
    refuseElsewhere(source, at)
    return
  }
  const version = shape.api_version
  if (version !== undefined && !VERSION.test(version)) {
    const shown = source.show(`${at}/api_version`, version)
    source.report(`${at}/api_version`, `api_version ${shown} is not a version of Azure's API`, {
      suggestion: 'write it as 2024-10-21 or 2024-12-01-preview',
    })
  }
  const path = pathOf(shape.base_url)
  if (path !== null) checkApiPath(source, at, path)
  if (shape.auth !== 'bearer') refuseTokens(source, at, shape)
}

function refuseElsewhere(source: Source, at: string): void {
  for (const key of ['api_version', 'auth']) {
    if (!source.has(`${at}/${key}`)) continue
    source.report(`${at}/${key}`, `${key} is only for the dialect azure`, {
      rule: 'useless-key',
      key: true,
      suggestion: 'remove this line',
    })
  }
}

function checkApiPath(source: Source, at: string, path: string): void {
  if (/\/openai(\/deployments(\/[^/]*)?)?$/.test(path)) {
    source.report(`${at}/base_url`, 'base_url is too long: the gateway adds /openai/deployments and the model', {
      suggestion: 'end it with the host, or with /openai/v1 for the API without versions',
    })
  } else if (apiOf(path) !== 'v1' && !source.mayHave(`${at}/api_version`)) {
    source.report(at, '"api_version" is missing: Azure requires it at this base_url', {
      rule: 'missing-key',
      suggestion: 'write api_version: 2024-10-21, or end the base_url with /openai/v1, which needs none',
    })
  }
}

/** An access token is a JSON Web Token; a key never is. */
function refuseTokens(source: Source, at: string, { api_key, api_keys = [] }: Partial<ProviderShape>): void {
  const keys = [[`${at}/api_key`, api_key] as const, ...api_keys.map((key, i) => [`${at}/api_keys/${i}`, key] as const)]
  for (const [place, key] of keys) {
    if (key === undefined || !/^eyJ[\w-]*\.[\w-]*\.[\w-]*$/.test(key)) continue
    source.report(place, 'this is an access token, which Azure does not accept as a key', {
      suggestion: 'write auth: bearer',
      concealed: true,
    })
  }
}
