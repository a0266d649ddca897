/** The texts of `tollgate init --provider`: a configuration with real providers, and its variables. */
import { InvalidArgumentError } from 'commander'
import { listed, nearest } from '../config/yaml/problem.ts'
import { VENDORS, type Vendor, vendorNamed } from '../providers/dialects/vendors.ts'
import type { Environment } from './configuration.ts'
import { pairs } from './format.ts'
import type { Terminal } from './terminal.ts'
import { listValue } from './values.ts'

/** A variable of the written configuration. */
export interface Variable {
  readonly name: string
  /** A sentence without a full stop: the value to write, or the page where keys are created. */
  readonly meaning: string
}

/** A file with a credential, beside gateway.yaml. */
export const SERVICE_ACCOUNT = 'service-account.json'

/** Parts of a vendor's provider that are not in `VENDORS`. */
interface Needs {
  readonly baseUrl?: string
  readonly variables?: readonly Variable[]
  /** Further keys of the provider, with their YAML. */
  readonly keys?: Readonly<Record<string, string>>
  /** The console page where keys are created. */
  readonly keyPage?: string
  /** The vendor's names of the models that the dialect supports; undefined: all. */
  readonly models?: string
}

const NEEDS: Readonly<Record<string, Needs>> = {
  openai: { keyPage: 'OpenAI Platform, page "API keys"' },
  anthropic: { keyPage: 'Claude Console, page "API keys"' },
  gemini: { keyPage: 'Google AI Studio, page "API keys"', models: 'gemini-*' },
  azure: {
    baseUrl: 'https://${AZURE_RESOURCE_NAME}.openai.azure.com/openai/v1',
    variables: [{ name: 'AZURE_RESOURCE_NAME', meaning: 'Azure OpenAI: the name of the resource' }],
    keyPage: 'Azure portal, the resource, page "Keys and Endpoint"',
  },
  'azure-foundry': {
    baseUrl: 'https://${AZURE_AI_RESOURCE_NAME}.services.ai.azure.com/models',
    variables: [{ name: 'AZURE_AI_RESOURCE_NAME', meaning: 'Azure AI Foundry: the name of the resource' }],
    keys: { api_version: '2024-05-01-preview' },
    keyPage: 'Azure AI Foundry, the project, page "Overview"',
  },
  bedrock: {
    baseUrl: 'https://bedrock-runtime.${AWS_REGION}.amazonaws.com',
    variables: [{ name: 'AWS_REGION', meaning: 'Amazon Bedrock: the region, such as eu-central-1' }],
    keyPage: 'AWS console, Amazon Bedrock, page "API keys"',
  },
  vertex: {
    baseUrl: 'https://aiplatform.googleapis.com/v1/projects/${VERTEXAI_PROJECT}/locations/global/publishers/google',
    variables: [{ name: 'VERTEXAI_PROJECT', meaning: 'Google Vertex AI: the id of the project' }],
    keys: { service_account: `\${file:${SERVICE_ACCOUNT}}` },
    models: 'gemini-*',
  },
  mistral: { keyPage: 'Mistral AI Studio, page "API keys"' },
  codestral: { keyPage: 'Mistral AI Studio, page "Codestral"', models: 'codestral-*' },
  groq: { keyPage: 'GroqCloud console, page "API Keys"' },
  deepseek: { keyPage: 'DeepSeek Platform, page "API keys"' },
  together: { keyPage: 'Together AI, settings, page "API Keys"' },
  openrouter: { keyPage: 'OpenRouter, settings, page "API Keys"' },
  xai: { keyPage: 'xAI Console, page "API Keys"' },
  cohere: { keyPage: 'Cohere dashboard, page "API keys"' },
  databricks: {
    baseUrl: 'https://${DATABRICKS_HOST}/serving-endpoints',
    variables: [{ name: 'DATABRICKS_HOST', meaning: 'Databricks: the host of the workspace' }],
    keyPage: 'Databricks workspace, settings, page "Developer"',
  },
  cloudflare: {
    baseUrl: 'https://api.cloudflare.com/client/v4/accounts/${CLOUDFLARE_ACCOUNT_ID}/ai/v1',
    variables: [{ name: 'CLOUDFLARE_ACCOUNT_ID', meaning: 'Cloudflare: the id of the account' }],
    keyPage: 'Cloudflare dashboard, page "API Tokens"',
  },
  vllm: { baseUrl: 'http://127.0.0.1:8000/v1' },
  // Its default port is the same as that of `listen`.
  llamafile: {
    baseUrl: '${LLAMAFILE_BASE_URL}',
    variables: [
      {
        name: 'LLAMAFILE_BASE_URL',
        meaning: 'llamafile: its base URL. Start it on another port than 8080: http://127.0.0.1:8090/v1',
      },
    ],
  },
  'litellm-proxy': { baseUrl: 'http://127.0.0.1:4000/v1' },
  'openai-compatible': {
    baseUrl: '${OPENAI_COMPATIBLE_BASE_URL}',
    variables: [{ name: 'OPENAI_COMPATIBLE_BASE_URL', meaning: 'The base URL of the server, up to /v1' }],
  },
}

/** The vendors in the list on a terminal. Every name of `VENDORS` is accepted. */
const WELL_KNOWN = [
  ...['openai', 'anthropic', 'gemini', 'azure', 'bedrock', 'vertex', 'mistral', 'groq', 'deepseek', 'together'],
  ...['openrouter', 'xai', 'ollama', 'vllm'],
]

/** Parses `openai,anthropic`. An unknown name is a usage error. */
export function vendorsValue(text: string): readonly Vendor[] {
  return listValue(text).map(name => {
    const vendor = vendorNamed(name)
    if (vendor !== undefined) return vendor
    const names = VENDORS.map(each => each.name)
    const near = nearest(name, names)
    const hint = near === undefined ? '' : ` Did you mean "${near}"?`
    throw new InvalidArgumentError(`The provider "${name}" is unknown.${hint} The names are: ${names.join(', ')}.`)
  })
}

/**
 * Asks for providers until the answer is valid; an empty answer means none.
 * @param env marks the providers whose key is in the environment or in `.env`
 */
export async function askVendors(
  terminal: Terminal,
  ask: (question: string) => Promise<string>,
  env: Environment,
): Promise<readonly Vendor[]> {
  const rows = WELL_KNOWN.map((name, index): [string, string] => {
    const { title, key } = vendorNamed(name)!
    const mark = key !== null && env[key] ? ` (${key} is set)` : ''
    return [`${String(index + 1).padStart(2)} ${name}`, `${title}${mark}`]
  })
  terminal.out(`Providers of the new gateway:\n\n${pairs(rows)}\n`)
  while (true) {
    const answer = (await ask('Numbers or names, separated by commas (Enter: the embedded demo): ')).trim()
    if (answer === '') return []
    try {
      return vendorsValue(
        answer
          .split(',')
          .map(word => WELL_KNOWN[Number(word) - 1] ?? word)
          .join(','),
      )
    } catch (error) {
      if (!(error instanceof InvalidArgumentError)) throw error
      terminal.out(`${error.message}\n`)
    }
  }
}

/** How the models of a vendor get their prices. */
type Pricing = 'list' | 'deployment' | 'free' | 'written'

function pricingOf(vendor: Vendor): Pricing {
  if (vendor.dialect === 'azure') return 'deployment'
  if (vendor.genai !== undefined) return 'list'
  return vendor.key === null ? 'free' : 'written'
}

/** The variables of a vendor, in the order of `.env.example`. */
export function variablesOf(vendor: Vendor): readonly Variable[] {
  const { keyPage, variables = [] } = NEEDS[vendor.name] ?? {}
  const { title, key } = vendor
  const of = (name: string, meaning: string): Variable => ({ name: variable(vendor, name), meaning })
  const model = of('MODEL', `${title}: its name for the model that clients call "chat"`)
  return [
    ...(key === null ? [] : [{ name: key, meaning: `A key of ${title}: ${keyPage ?? 'its page for API keys'}` }]),
    ...variables,
    ...{
      list: [],
      free: [model],
      deployment: [
        of('DEPLOYMENT', `${title}: the name of the deployment`),
        of('MODEL', `${title}: the model of the deployment, such as gpt-5-mini`),
      ],
      written: [
        model,
        of('INPUT_PRICE', `${title}: the price of 1M input tokens of this model, such as $0.15`),
        of('OUTPUT_PRICE', `${title}: the price of 1M output tokens, such as $0.60`),
      ],
    }[pricingOf(vendor)],
  ]
}

const variable = ({ name }: Vendor, end: string): string => `${name.toUpperCase().replaceAll('-', '_')}_${end}`

/** The key `providers` of gateway.yaml. */
export function providersYaml(vendors: readonly Vendor[]): string {
  return `providers:\n${vendors.map(providerYaml).join('\n')}`
}

function providerYaml(vendor: Vendor): string {
  const { name, dialect, profile, hosts, key } = vendor
  const { baseUrl = vendor.baseUrl, keys = {} } = NEEDS[name] ?? {}
  const entries = Object.entries({
    dialect,
    // Each other dialect implies its profile.
    ...(profile === undefined || dialect !== 'openai' ? {} : { profile }),
    base_url: baseUrl,
    ...keys,
    // At an unknown host, `check` expects this setting.
    ...(hosts === undefined && dialect === 'openai' ? { missing_finish: 'error' } : {}),
    ...(key === null ? {} : { api_key: `\${${key}}` }),
  })
  return `  ${name}:\n${entries.map(([entry, value]) => `    ${entry}: ${value}\n`).join('')}`
}

/**
 * The key `models` of gateway.yaml. With one vendor, clients send the model's own name, as they do to the vendor. With several,
 * the vendor's name and a slash precede it.
 */
export function modelsYaml(vendors: readonly Vendor[]): string {
  return `models:\n${vendors.map(vendor => modelYaml(vendor, vendors.length === 1 ? '' : `${vendor.name}/`)).join('\n')}`
}

function modelYaml(vendor: Vendor, prefix: string): string {
  const { name, title, cap } = vendor
  const pricing = pricingOf(vendor)
  const model =
    pricing === 'list'
      ? (NEEDS[name]?.models ?? '*')
      : reference(vendor, pricing === 'deployment' ? 'DEPLOYMENT' : 'MODEL')
  const target = [
    `provider: ${name}`,
    `model: "${model}"`,
    ...(pricing === 'deployment' ? [`base_model: "${reference(vendor, 'MODEL')}"`] : []),
    ...(cap === undefined || vendor.profile !== undefined || vendor.dialect !== 'openai' ? [] : [`cap_field: ${cap}`]),
  ]
  const sizes = '    context: 32Ki      # of the model: see its page\n    max_output: 8Ki\n'
  return {
    list: `  # The chat models of ${title} at its list prices.
  "${prefix}${model}":
    targets: [{ ${target.join(', ')} }]
    price: auto
`,
    deployment: `  # One deployment. The price is the list price of its model.
  ${prefix}chat:
    targets: [{ ${target.join(', ')} }]
    price: auto
`,
    free: `  # A model of your own server.
  ${prefix}chat:
    targets: [{ ${target.join(', ')} }]
    price: free
${sizes}`,
    written: `  # The built-in price list has no models of ${title}: write one in .env, with its price.
  ${prefix}chat:
    targets: [{ ${target.join(', ')} }]
    price: { per: 1M tokens, input: "${reference(vendor, 'INPUT_PRICE')}", output: "${reference(vendor, 'OUTPUT_PRICE')}" }
${sizes}`,
  }[pricing]
}

const reference = (vendor: Vendor, end: string): string => `\${${variable(vendor, end)}}`

/** `.env.example`: each variable without a value, below its meaning. */
export function environmentExample(vendors: readonly Vendor[]): string {
  const lines = vendors.flatMap(variablesOf).map(({ name, meaning }) => `\n# ${meaning}.\n${name}=\n`)
  return `# Copy this file to .env beside gateway.yaml and fill it in. Keep .env out of version control.\n${lines.join('')}`
}

/** `OpenAI, Anthropic and Groq`. */
export function titlesOf(vendors: readonly Vendor[]): string {
  return listed(
    vendors.map(({ title }) => title),
    'and',
  )
}
