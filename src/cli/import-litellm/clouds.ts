/** Converts providers on Azure, Bedrock and Vertex AI: base URLs and credentials. */
import { generateKeyPairSync } from 'node:crypto'
import type { Fields, TextValue } from './read.ts'
import { hasReference } from './references.ts'
import type { Remarks } from './remarks.ts'
import type { Variables } from './secrets.ts'

export interface CloudParts {
  readonly fields: Fields
  /** The name after the prefix. */
  readonly name: string
  readonly variables: Variables
  readonly remarks: Remarks
}

/** A provider, and the target's model name there. Converters return null if it cannot be converted, after a remark. */
export interface Cloud {
  readonly model: string
  readonly provider: Record<string, unknown>
}

/** Converters by the vendor's name. */
export const CLOUDS: Readonly<Record<string, (parts: CloudParts) => Cloud | null>> = {
  azure: azureOf,
  'azure-foundry': foundryOf,
  bedrock: bedrockOf,
  vertex: vertexOf,
}

const AZURE_SAMPLE = 'https://sample.openai.azure.com'

function azureOf({ fields, name, variables, remarks }: CloudParts): Cloud {
  const base = fields.text('api_base')
  const version = fields.text('api_version')
  const url = base === null ? variables.reference('AZURE_API_BASE', AZURE_SAMPLE) : variables.plain(base, AZURE_SAMPLE)
  if (base === null)
    remarks.add('yours', fields, 'api_base is not in the file', 'set AZURE_API_BASE: https://RESOURCE.openai.azure.com')
  const host = url.replace(/\/+$/, '').replace(/\/openai(\/(deployments(\/.*)?|v1))?$/, '')
  const provider: Record<string, unknown> = { dialect: 'azure' }
  if (version === null) {
    provider['base_url'] = `${host}/openai/v1`
    remarks.add(
      'changed',
      fields,
      'api_version is not in the file: the API without versions (/openai/v1) is used',
      'add api_version to the provider, and end its base_url with the host, for the classic one',
    )
  } else {
    provider['base_url'] = host
    provider['api_version'] = variables.plain(version, '2024-10-21')
  }
  const token = fields.text('azure_ad_token')
  if (token) Object.assign(provider, { auth: 'bearer', api_key: variables.secret(token, 'AZURE_AD_TOKEN') })
  else provider['api_key'] = keyOf(fields, variables, 'AZURE_API_KEY')
  return { model: name, provider }
}

function foundryOf({ fields, name, variables, remarks }: CloudParts): Cloud {
  const base = fields.text('api_base')
  if (name.startsWith('claude') || (base && !hasReference(base) && !/\.services\.ai\.azure\.com(\/|$)/.test(base.text)))
    return endpointOf({ fields, name, variables, remarks }, base)
  const sample = 'https://sample.services.ai.azure.com'
  const url = base === null ? variables.reference('AZURE_AI_API_BASE', sample) : variables.plain(base, sample)
  const version = fields.text('api_version')
  const host = url.replace(/\/+$/, '').replace(/\/(models|chat\/completions|models\/chat\/completions)$/, '')
  remarks.add(
    'changed',
    fields.peek('model') ?? fields,
    'azure_ai is assumed to be a Foundry resource, with its models at /models',
    'for another kind of deployment change the base_url of the provider',
  )
  return {
    model: name,
    provider: {
      dialect: 'azure',
      base_url: `${host}/models`,
      api_version: version ? variables.plain(version, '2024-05-01-preview') : '2024-05-01-preview',
      api_key: keyOf(fields, variables, 'AZURE_AI_API_KEY'),
    },
  }
}

/** A provider for Claude on Azure, in Anthropic's format, or for an endpoint of one model, in OpenAI's format. */
function endpointOf({ fields, name, variables, remarks }: CloudParts, base: TextValue | null): Cloud {
  const claude = name.startsWith('claude')
  const sample = 'https://sample.services.ai.azure.com/anthropic'
  const url = base === null ? variables.reference('AZURE_AI_API_BASE', sample) : variables.plain(base, sample)
  const host = url.replace(/\/+$/, '').replace(/\/(v1\/)?(chat\/completions|messages)$/, '')
  const isWhole = base === null || hasReference(base) || /\/anthropic(\/v1)?$/.test(host)
  const foundry = isWhole ? host.replace(/\/v1$/, '') : `${host}/anthropic`
  remarks.add(
    'changed',
    fields.peek('model') ?? fields,
    claude
      ? "Claude on Azure is called in Anthropic's format"
      : "azure_ai at this address is assumed to be an endpoint of one model, in OpenAI's format",
    'check the base_url of the provider',
  )
  return {
    model: name,
    provider: {
      dialect: claude ? 'anthropic' : 'openai',
      base_url: claude ? `${foundry}/v1` : host,
      api_key: keyOf(fields, variables, 'AZURE_AI_API_KEY'),
    },
  }
}

const REGION = /^[a-z]{2}(-[a-z]+)+-\d$/

function bedrockOf({ fields, name, variables, remarks }: CloudParts): Cloud {
  const path = name.split('/')
  const ways = ['converse', 'invoke', 'converse_like']
  const way = path.find(part => ways.includes(part))
  const inPath = path.find(part => REGION.test(part))
  const id = fields.text('model_id')
  const plain = path.filter(part => part !== way && part !== inPath).join('/')
  // An ARN may be preceded by a part from which LiteLLM derives the model's format.
  const model = id ? id.text : plain.slice(Math.max(0, plain.indexOf('arn:')))
  const named = fields.text('aws_region_name')
  const region =
    inPath ?? (named ? variables.plain(named, 'us-east-1') : variables.reference('AWS_REGION_NAME', 'us-east-1'))
  const endpoint = fields.text('aws_bedrock_runtime_endpoint')
  const isClaude = /anthropic\.claude/.test(name)
  if (way === 'invoke' && !isClaude)
    remarks.add('changed', fields.peek('model')!, 'invoke is only for Claude: Converse is used')
  const provider: Record<string, unknown> = {
    dialect: way === 'invoke' && isClaude ? 'bedrock-invoke' : 'bedrock',
    base_url: endpoint
      ? variables.plain(endpoint, 'https://bedrock-runtime.us-east-1.amazonaws.com')
      : `https://bedrock-runtime.${region}.amazonaws.com`,
  }
  const key = fields.text('api_key')
  if (key) return { model, provider: { ...provider, api_key: variables.secret(key, 'AWS_BEARER_TOKEN_BEDROCK') } }
  const access = fields.text('aws_access_key_id')
  const secret = fields.text('aws_secret_access_key')
  const session = fields.text('aws_session_token')
  if (!access)
    remarks.add(
      'yours',
      fields,
      'the file has no AWS keys',
      'set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: roles and profiles are not looked up',
    )
  const aws = {
    access_key_id: access ? variables.secret(access, 'AWS_ACCESS_KEY_ID') : variables.reference('AWS_ACCESS_KEY_ID'),
    secret_access_key: secret
      ? variables.secret(secret, 'AWS_SECRET_ACCESS_KEY')
      : variables.reference('AWS_SECRET_ACCESS_KEY'),
    ...(session ? { session_token: variables.secret(session, 'AWS_SESSION_TOKEN') } : {}),
    region,
  }
  return { model, provider: { ...provider, aws } }
}

function vertexOf({ fields, name, variables, remarks }: CloudParts): Cloud | null {
  const claude = name.startsWith('claude')
  if (!claude && !name.startsWith('gemini')) {
    remarks.add(
      'lost',
      fields.peek('model') ?? fields,
      'on Vertex AI, only Gemini and Claude are supported',
      "add another provider that serves it in OpenAI's format",
    )
    return null
  }
  const [project, location, credentials] = ['project', 'location', 'credentials'].map(
    key => fields.text(`vertex_${key}`) ?? fields.text(`vertex_ai_${key}`),
  )
  const place = location ? variables.plain(location, 'us-central1') : 'us-central1'
  if (!location)
    remarks.add('changed', fields, 'vertex_location is not in the file: us-central1 is used, as in LiteLLM')
  if (location && hasReference(location))
    remarks.add(
      'changed',
      location,
      'the host is built from the location',
      'for "global", remove the location and its dash from the host',
    )
  const host = place === 'global' ? '' : `${place}-`
  const where = project
    ? variables.plain(project, 'sample-project')
    : variables.reference('VERTEXAI_PROJECT', 'sample-project')
  const maker = claude ? 'anthropic' : 'google'
  return {
    model: name,
    provider: {
      dialect: claude ? 'vertex-anthropic' : 'vertex',
      base_url: `https://${host}aiplatform.googleapis.com/v1/projects/${where}/locations/${place}/publishers/${maker}`,
      service_account: serviceAccount(fields, credentials ?? null, variables, remarks),
    },
  }
}

function serviceAccount(
  fields: Fields,
  credentials: ReturnType<Fields['text']>,
  variables: Variables,
  remarks: Remarks,
): string {
  const name = 'GOOGLE_SERVICE_ACCOUNT'
  const map = fields.map('vertex_credentials')
  if (map !== null) {
    const parts = map.keys().map(key => [key, map.text(key)?.text])
    return inlineAccount(map, JSON.stringify(parts), variables, remarks)
  }
  if (credentials === null) {
    remarks.add(
      'yours',
      fields,
      "the machine's own Google credentials are not looked up",
      `set ${name} to the text of a service account's JSON file`,
    )
    return variables.reference(name, sampleAccount())
  }
  if (hasReference(credentials)) {
    const reference = variables.plain(credentials, sampleAccount())
    remarks.add(
      'yours',
      credentials,
      'the variable must contain the text of the JSON file, not its path',
      'for a path write ${file:PATH}',
    )
    return reference
  }
  // A text as long as a key is not a path.
  if (!credentials.text.trim().startsWith('{') && credentials.text.length < 256) return `\${file:${credentials.text}}`
  return inlineAccount(credentials, credentials.text, variables, remarks)
}

function inlineAccount(at: TextValue | Fields, secret: string, variables: Variables, remarks: Remarks): string {
  const name = variables.nameFor(secret, 'GOOGLE_SERVICE_ACCOUNT', sampleAccount())
  const message = "the file contains a service account's key, which is not copied"
  remarks.add('yours', at, message, `set ${name} to that JSON`)
  return `\${${name}}`
}

function keyOf(fields: Fields, variables: Variables, name: string): string | null {
  const key = fields.text('api_key')
  return key ? variables.secret(key, name) : variables.reference(name)
}

let sample: string | null = null

/** A service account without access, for checking the converted files. */
export function sampleAccount(): string {
  if (sample !== null) return sample
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  sample = JSON.stringify({
    client_email: 'sample@sample.iam.gserviceaccount.com',
    private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    token_uri: 'https://oauth2.googleapis.com/token',
  })
  return sample
}
