/** Broken gateway.yaml files. The mark ▸ shows where the problem must be reported. */
import { ALERTS } from './alert-rows.ts'
import { BRACES } from './brace-rows.ts'
import { CATALOG } from './catalog-rows.ts'
import { ONE_DIALECT } from './dialect-rows.ts'
import { PLANS } from './plan-rows.ts'
import { PRICES } from './price-rows.ts'
import { STORE } from './store-rows.ts'
import { TARGETS as TARGET_ROWS } from './target-rows.ts'
import { TELEMETRY } from './telemetry-rows.ts'
import { type Files, type Gateway, PARTS } from './workshop.ts'

export type Row = readonly [name: string, gateway: Gateway, says: string | readonly string[], files?: Files]

const provider = (text: string): Gateway => ({ providers: `providers:\n  demo: { dialect: demo }\n${text}` })
const model = (text: string, more = ''): Gateway => ({
  models: `models:\n  small:\n${text}\n${more}`,
})
const SIZES = '    context: 8Ki\n    max_output: 1Ki'
const TARGETS = '    targets: [ { provider: demo, model: tiny } ]'
const PRICE = '    price: { per: 1M tokens, input: $0.10, output: $0.40 }'
const route = (text: string): Gateway => ({ routes: `${PARTS.routes}\n${text}` })
const RAW = 'path: /v1/embeddings, kind: raw, policy: standard'
const raw = (place: string) => route(`  - { ${place}, kind: raw, policy: catalog, provider: far, price: free }`)

const YAML: Row[] = [
  ['nothing at all', '▸', 'the file is empty; write "version: 1", or use "tollgate init"'],
  ['only a comment', '▸# nothing\n', 'the file is empty'],
  ['a list', '▸- version: 1\n', 'the file must be a map, not a list'],
  ['a key twice', { more: 'drain: 1m\n▸drain: 2m' }, 'the key "drain" is listed twice; remove one of the two'],
  ['a tag', { more: 'drain: ▸!soon' }, '!soon is read as a YAML tag, not as a value; put it in quotes'],
  ['a tab', { more: 'limits:\n▸\tbody: 1MiB' }, 'YAML must be indented with spaces, not with tabs'],
  ['two documents', { more: '▸---\nversion: 1' }, 'more than one YAML document'],
  ['a merge key', { more: '▸<<: { drain: 1m }' }, 'merge keys (<<) are not supported; write the entries themselves'],
  ['an alias without anchor', { more: 'drain: ▸*soon' }, '*soon names an anchor that is not defined before it'],
  [
    'a number with too many digits',
    { more: 'trust_proxy: ▸0.12345678901234567890' },
    'has more digits than a number can hold',
  ],
  [
    'an unquoted reference in braces',
    provider('  near: { dialect: openai, base_url: "https://a.example/v1", api_key: ▸${FAR_KEY} }'),
    'YAML cannot read ${…} inside { } or [ ] unless it is in quotes; quote it: "${NAME}", or use a block map',
  ],
]

const TOP: Row[] = [
  ['no version', { version: '# no version', providers: `▸${PARTS.providers}` }, 'the file has no "version"'],
  ['another version', { version: 'version: ▸2' }, 'version must be 1, not 2'],
  ['a mistyped key', { more: '▸lisen: 127.0.0.1:1' }, 'unknown key "lisen"; did you mean "listen"?'],
  ['a foreign key', { more: '▸tracing: on' }, 'unknown key "tracing"'],
  ['a prototype key', { more: '▸__proto__: { drain: 1m }' }, 'unknown key "__proto__"'],
  [
    'a number for an address',
    { more: 'listen: ▸8080' },
    'listen must be an address with a port, not 8080; write 127.0.0.1:8080',
  ],
  ['an address without port', { more: 'listen: ▸127.0.0.1' }, 'listen: "127.0.0.1" is not an address with a port'],
  ['an address without brackets', { more: 'listen: ▸"::1:8080"' }, '"::1:8080" is not an address with a port'],
  ['a port that is too high', { more: 'admin: ▸127.0.0.1:70000' }, 'admin: "127.0.0.1:70000" has a port above 65535'],
  [
    'two listeners on one port',
    { more: 'listen: :9000\nadmin: ▸127.0.0.1:9000' },
    'admin and listen use the same address',
  ],
  [
    'metrics that other machines can read',
    { more: 'admin: ▸10.0.0.5:8082' },
    'admin: other machines can reach "10.0.0.5:8082", and access to /metrics there is not set; write metrics: token, and give Prometheus an operator\'s token; or metrics: open',
  ],
  ['metrics on all interfaces', { more: 'admin: ▸:8082' }, 'admin: other machines can reach ":8082", and access'],
  [
    'metrics under a host name',
    { more: 'admin: ▸gate.internal:8082' },
    'admin: other machines can reach "gate.internal:8082", and access to /metrics there is not set',
  ],
  [
    'metrics on all of IPv6',
    { more: 'admin: ▸"[::]:8082"' },
    'admin: other machines can reach "[::]:8082", and access to /metrics there is not set',
  ],
  [
    'metrics without a listener',
    { more: 'metrics: ▸token' },
    'metrics needs an admin listener; write admin: 127.0.0.1:8082, or remove this line',
  ],
  [
    'an unknown value of metrics',
    { more: 'admin: 10.0.0.5:8082\nmetrics: ▸password' },
    'metrics: "password" is not one of token or open',
  ],
  ['an empty value', { more: '▸limits:' }, 'limits is empty; give it a value or remove the key'],
  ['a secret written out', { more: 'secret: ▸0123456789abcdef0123' }, 'the secret is written in clear here'],
  ['a short secret', { more: 'secret: ▸${SHORT}' }, 'the secret has 3 characters and needs at least 32; make'],
  ['more threads than ids can name', { more: 'threads: ▸32' }, 'must be "auto" or a whole number from 1 to 31, not 32'],
  ['threads as a word', { more: 'threads: ▸two' }, 'threads must be "auto" or a whole number from 1 to 31, not "two"'],
  ['threads on a store in memory', { more: 'store: memory\nthreads: ▸2' }, 'several threads need a store in a file'],
  ['too many hops', { more: 'trust_proxy: ▸17' }, 'trust_proxy must be at most 16, not 17'],
  ['hops as a word', { more: 'trust_proxy: ▸two' }, 'trust_proxy must be a whole number, not "two"'],
  [
    'a host with a port',
    { more: 'hosts: [ api.example.com, ▸"api.example.com:8080" ]' },
    'is not a host name; write it without',
  ],
  ['an origin with a path', { more: 'cors: { origins: [ "*", ▸https://a.example/ ] }' }, 'is not an origin such as'],
  ['a host twice', { more: 'hosts: [ a.example, ▸A.example ]' }, 'the host "A.example" is listed twice'],
  [
    'an unknown limit',
    { more: 'limits: { ▸max_inflght: 5 }' },
    'unknown key "max_inflght"; did you mean "max_inflight"?',
  ],
  ['a body that is too large', { more: 'limits: { body: ▸64MiB }' }, 'body must be between 1KiB and 32MiB'],
  ['an invalid size', { more: 'limits: { body: ▸lots }' }, 'body: "lots" is not a size such as 4MiB'],
  ['a duration without a unit', { more: 'drain: ▸30' }, 'drain: "30" is not a duration such as 500ms, 15s'],
  ['a duration that is a list', { more: 'drain: ▸[ 1m ]' }, 'drain must be text, not a list'],
  [
    'less memory for all kept responses than for one',
    { more: 'limits: { kept_response: 4MiB, kept_responses: ▸2MiB }' },
    'kept_responses has 2097152 bytes per account, less than the 4194304 bytes of kept_response; write a larger kept_responses or a smaller kept_response',
  ],
  ['no exchange at a time', { more: 'limits: { max_inflight: ▸0 }' }, 'max_inflight must be at least 1, not 0'],
  ['a heartbeat that is too short', { more: 'heartbeat: { every: ▸10ms }' }, 'heartbeat every must be at least 1s'],
]

const REFERENCES: Row[] = [
  [
    'a variable that is not set',
    { more: 'store: ▸"sqlite:${NOWHERE}"' },
    'the environment variable NOWHERE is not set',
  ],
  ['a mistyped variable', { more: 'store: ▸"sqlite:${FAR_KEYS}"' }, 'FAR_KEYS is not set; did you mean FAR_KEY?'],
  ['a default', { more: 'store: ▸${STORE:-memory}' }, '"${STORE:-memory}" does not name an environment variable'],
  ['a reference without end', { more: 'store: ▸"sqlite:${FAR_KEY"' }, '"${FAR_KEY" has no closing brace'],
  [
    'a missing file',
    { more: 'secret: ▸${file:secrets/none}' },
    'the file secrets/none cannot be read: the file does not exist',
  ],
  ['a folder', { more: 'secret: ▸${file:policies}' }, 'the file policies cannot be read: it is a folder'],
  ['no file', { more: 'secret: ▸"${file:}"' }, 'the file (no path) cannot be read'],
  [
    'a reference that is not a number',
    { more: 'trust_proxy: ▸${FAR_KEY}' },
    'trust_proxy must be a whole number, not ${FAR_KEY}',
  ],
]

const PROVIDERS: Row[] = [
  ['no dialect', provider('  near:\n    ▸base_url: https://a.example/v1'), 'near has no "dialect"'],
  [
    'an unknown dialect',
    provider('  near: { dialect: ▸watson }'),
    'dialect: "watson" is not one of openai, azure, mistral, ',
  ],
  ['a mistyped dialect', provider('  near: { dialect: ▸opnai }'), 'did you mean "openai"?'],
  ['a bad name', provider('  ▸"near by": { dialect: demo }'), 'the name "near by" must be up to 40 letters, digits'],
  ['no base_url', provider('  near: ▸{ dialect: openai }'), 'the provider "near" has no "base_url"'],
  ...[
    ['no JSON', '${FAR_KEY}', 'the service_account is not JSON'],
    ['an incomplete one', '${HALF_ACCOUNT}', 'does not contain client_email, private_key and token_uri'],
    ['an invalid key', '${KEYLESS_ACCOUNT}', 'has a private_key that cannot be read'],
    ['an address in clear', '${CLEAR_ACCOUNT}', 'has a token_uri that is not an https URL'],
    ['one written out', 'abcdefgh', 'the service_account is written in clear here'],
  ].map(
    ([what, account, says]): Row => [
      `a service account: ${what}`,
      provider(
        `  near: { dialect: vertex, base_url: "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google", service_account: ▸"${account}" }`,
      ),
      says!,
    ],
  ),
  [
    'a service account at another dialect',
    provider('  near: { dialect: gemini, base_url: "https://a.example", ▸service_account: "${FAR_KEY}" }'),
    'service_account is only for the dialects vertex and vertex-anthropic',
  ],
  [
    'a base_url of openai that ends elsewhere',
    provider('  near: { dialect: openai, base_url: ▸"https://api.openai.com" }'),
    'is not a base URL of the dialect openai; write it as https://api.openai.com/v1',
  ],
  [
    'a base_url of anthropic that ends elsewhere',
    provider('  near: { dialect: anthropic, base_url: ▸"https://api.anthropic.com/" }'),
    'is not a base URL of the dialect anthropic; write it as https://api.anthropic.com/v1',
  ],
  [
    'a base_url of gemini that ends elsewhere',
    provider('  near: { dialect: gemini, base_url: ▸"https://generativelanguage.googleapis.com" }'),
    'is not a base URL of the dialect gemini; write it as https://generativelanguage.googleapis.com/v1beta',
  ],
  [
    'a base_url of vertex that ends elsewhere',
    provider('  near: { dialect: vertex, base_url: ▸"https://europe-west1-aiplatform.googleapis.com/v1" }'),
    'is not a base URL of the dialect vertex; write it as https://aiplatform.googleapis.com/v1/projects/PROJECT/locations/global/publishers/google',
  ],
  [
    'a base_url of vertex-anthropic that ends elsewhere',
    provider(
      '  near: { dialect: vertex-anthropic, base_url: ▸"https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google" }',
    ),
    'is not a base URL of the dialect vertex-anthropic; write it as https://aiplatform.googleapis.com/v1/projects/PROJECT/locations/global/publishers/anthropic',
  ],
  [
    'a base_url of bedrock that ends elsewhere',
    provider('  near: { dialect: bedrock, base_url: ▸"https://bedrock-runtime.us-east-1.amazonaws.com/model" }'),
    'is not a base URL of the dialect bedrock; write it as https://bedrock-runtime.eu-central-1.amazonaws.com',
  ],
  [
    'a base_url of cohere that ends elsewhere',
    provider('  near: { dialect: cohere, base_url: ▸"https://api.cohere.com/v1" }'),
    'is not a base URL of the dialect cohere; write it as https://api.cohere.com/v2',
  ],
  [
    'a base_url of ollama that ends elsewhere',
    provider('  near: { dialect: ollama, base_url: ▸"http://127.0.0.1:11434/v1/" }'),
    'is not a base URL of the dialect ollama; write it as http://127.0.0.1:11434',
  ],
  [
    'a base_url of groq that ends elsewhere',
    provider('  near: { dialect: groq, base_url: ▸"https://api.groq.com/v1" }'),
    'is not a base URL of the dialect groq; write it as https://api.groq.com/openai/v1',
  ],
  ['an invalid base_url', provider('  near: { dialect: openai, base_url: ▸a.example/v1 }'), 'is not a URL'],
  [
    'plain http',
    provider('  near: { dialect: openai, base_url: ▸"http://10.0.0.1/v1" }'),
    'base_url "http://10.0.0.1/v1" would send keys and prompts unencrypted; use https, or write allow_insecure: true if you trust that network',
  ],
  [
    'credentials',
    provider('  near: { dialect: openai, base_url: ▸"https://u:p@a.example/v1" }'),
    'base_url contains credentials',
  ],
  [
    'a query',
    provider('  near: { dialect: openai, base_url: ▸"https://a.example/v1?k=v" }'),
    'has a query or a fragment',
  ],
  [
    'the whole path',
    provider('  near: { dialect: openai, base_url: ▸"https://a.example/v1/chat/completions" }'),
    'base_url is too long: the gateway adds /chat/completions; end it with /v1',
  ],
  [
    'a key written out',
    provider('  near: { dialect: openai, base_url: "https://a.example/v1", api_key: ▸not-a-real-key }'),
    'the api_key is written in clear here; files get committed and copied; write ${NAME}',
  ],
  [
    'a key with a word before it',
    provider('  near: { dialect: openai, base_url: "https://a.example/v1", api_key: ▸"Bearer ${FAR_KEY}" }'),
    'the api_key is empty, or contains blanks or characters that are not allowed in a header; write the key alone, without "Bearer"',
  ],
  [
    'an empty key',
    provider('  near: { dialect: openai, base_url: "https://a.example/v1", api_key: ▸"${EMPTY}" }'),
    'api_key is empty',
  ],
  [
    'a header of the connection',
    provider('  near: { dialect: openai, base_url: "https://a.example/v1", headers: { ▸Host: x, ▸accept: x } }'),
    ['the gateway builds the header "Host" itself', 'the gateway builds the header "accept" itself'],
  ],
  [
    'a secret header written out',
    provider('  near: { dialect: openai, base_url: "https://a.example/v1", headers: { x-api-key: ▸not-a-real-key } }'),
    'the header "x-api-key" is written in clear here',
  ],
  [
    'a header name with a blank',
    provider('  near: { dialect: openai, base_url: "https://a.example/v1", headers: { ▸"x y": z } }'),
    '"x y" is not a header name',
  ],
  [
    'a line break in a header',
    provider('  near: { dialect: openai, base_url: "https://a.example/v1", headers: { x-team: ▸"a\\nb" } }'),
    'contains a line break',
  ],
  [
    'two authorizations',
    provider(
      '  near: { dialect: openai, base_url: "https://a.example/v1", api_key: "${FAR_KEY}", headers: { ▸authorization: "${FAR_KEY}" } }',
    ),
    'this provider already has a credential: api_key; keep one of the two',
  ],
  [
    "two keys, one of them in the dialect's own header",
    provider(
      '  near: { dialect: anthropic, base_url: "https://a.example/v1", api_key: "${FAR_KEY}", headers: { ▸X-Api-Key: "${FAR_KEY}" } }',
    ),
    'this provider already has a credential: api_key; keep one of the two',
  ],
  [
    'an API key and AWS keys',
    provider(
      '  near: { dialect: bedrock, base_url: "https://a.example", api_key: "${FAR_KEY}", ▸aws: { access_key_id: "${FAR_KEY}", secret_access_key: "${FAR_KEY}", region: eu-central-1 } }',
    ),
    'this provider already has a credential: api_key; keep one of the two',
  ],
  [
    'AWS keys for another dialect',
    provider(
      '  near: { dialect: openai, base_url: "https://a.example", ▸aws: { access_key_id: "${FAR_KEY}", secret_access_key: "${FAR_KEY}", region: eu-central-1 } }',
    ),
    'aws is only for the dialects bedrock and bedrock-invoke',
  ],
  [
    'an invalid region',
    provider(
      '  near: { dialect: bedrock, base_url: "https://a.example", aws: { access_key_id: "${FAR_KEY}", secret_access_key: "${FAR_KEY}", region: ▸frankfurt } }',
    ),
    'is not an AWS region',
  ],
  [
    'an AWS key written out',
    provider(
      '  near: { dialect: bedrock, base_url: "https://a.example", aws: { access_key_id: "${FAR_KEY}", secret_access_key: ▸abcdefgh, region: eu-central-1 } }',
    ),
    'the secret_access_key is written in clear here',
  ],
  [
    'one of several keys written out',
    provider('  near: { dialect: openai, base_url: "https://a.example/v1", api_keys: [ "${FAR_KEY}", ▸abcdefgh ] }'),
    'the api_key is written in clear here',
  ],
  [
    'Azure without a version',
    provider('  near:\n    ▸dialect: azure\n    base_url: https://a.example'),
    '"api_version" is missing: Azure requires it at this base_url',
  ],
  [
    'Foundry without a version',
    provider('  near:\n    ▸dialect: azure\n    base_url: https://a.example/models'),
    'write api_version: 2024-10-21, or end the base_url with /openai/v1, which needs none',
  ],
  [
    'an invalid version of Azure',
    provider('  near: { dialect: azure, base_url: "https://a.example", api_version: ▸2024-10 }'),
    'api_version "2024-10" is not a version of Azure\'s API; write it as 2024-10-21 or 2024-12-01-preview',
  ],
  [
    "Azure's address with what the gateway adds",
    provider('  near: { dialect: azure, base_url: ▸"https://a.example/openai/", api_version: 2024-10-21 }'),
    'base_url is too long: the gateway adds /openai/deployments and the model',
  ],
  [
    "Azure's address with a deployment",
    provider(
      '  near: { dialect: azure, base_url: ▸"https://a.example/openai/deployments/x", api_version: 2024-10-21 }',
    ),
    'base_url is too long',
  ],
  [
    'an access token for a key of Azure',
    provider('  near: { dialect: azure, base_url: "https://a.example/openai/v1", api_key: ▸"${ENTRA}" }'),
    'this is an access token, which Azure does not accept as a key; write auth: bearer',
  ],
  [
    'an access token among keys of Azure',
    provider(
      '  near: { dialect: azure, base_url: "https://a.example/openai/v1", api_keys: [ "${FAR_KEY}", ▸"${ENTRA}" ] }',
    ),
    'this is an access token',
  ],
  [
    'an unknown kind of credential',
    provider('  near: { dialect: azure, base_url: "https://a.example/openai/v1", auth: ▸entra }'),
    'auth: "entra" is not one of api-key or bearer',
  ],
  ['a version for the demo', provider('  near: { dialect: demo, ▸api_version: 2024-10-21 }'), 'which uses no network'],
  [
    'a key for the demo',
    provider('  near: { dialect: demo, ▸api_key: "${FAR_KEY}" }'),
    '"api_key" has no effect at the demo provider, which uses no network',
  ],
  [
    'pace at another dialect',
    provider('  near: { dialect: openai, base_url: "https://a.example/v1", ▸pace: 5ms }'),
    'pace is for the demo',
  ],
  [
    'an unknown timeout',
    provider('  near: { dialect: openai, base_url: "https://a.example/v1", timeouts: { ▸read: 5s } }'),
    'unknown key "read"; there are connect, first_byte, idle and total',
  ],
  ...['connect', 'first_byte', 'idle'].map(
    (name): Row => [
      `${name} longer than total`,
      provider(
        `  near: { dialect: openai, base_url: "https://a.example/v1", timeouts: { total: 1500ms, ${name}: ▸60s } }`,
      ),
      `${name} is longer than total ("1500ms"), so it has no effect; make ${name} shorter, or total longer`,
    ],
  ),
  [
    'an idle limit above the default total limit',
    provider('  near: { dialect: openai, base_url: "https://a.example/v1", timeouts: { idle: ▸20m } }'),
    'idle is longer than total (15m, the default), so it has no effect',
  ],
]

const MODELS: Row[] = [
  [
    'no price',
    model(`    ▸${TARGETS.trim()}\n${SIZES}`),
    'small has no "price"; it must be "auto", "free" or a map with per, input and output',
  ],
  [
    'a price as a word',
    model(`${TARGETS}\n    price: ▸cheap\n${SIZES}`),
    'price must be "auto", "free" or a map with per, input and output, not "cheap"',
  ],
  ['a price that is a number', model(`${TARGETS}\n    price: ▸5\n${SIZES}`), 'price must be "auto", "free" or a map'],
  [
    'a price without output',
    model(`${TARGETS}\n    price: ▸{ per: 1M tokens, input: 1 }\n${SIZES}`),
    'price has no "output"',
  ],
  [
    'a price per word',
    model(`${TARGETS}\n    price: { per: ▸1M words, input: 1, output: 1 }\n${SIZES}`),
    'per must be "1M tokens" or "1K tokens", not "1M words"',
  ],
  [
    'too many decimals',
    model(`${TARGETS}\n    price: { per: 1M tokens, input: ▸$0.0000000001, output: 1 }\n${SIZES}`),
    'input: "$0.0000000001" is not an amount of dollars',
  ],
  [
    'euros',
    model(`${TARGETS}\n    price: { per: 1M tokens, input: ▸€1, output: 1 }\n${SIZES}`),
    '"€1" is not an amount of dollars',
  ],
  [
    'a price above the maximum',
    model(`${TARGETS}\n    price: { per: 1K tokens, input: 1, output: ▸$101 }\n${SIZES}`),
    'output is more than $100000 per 1M tokens',
  ],
  [
    'a mistyped price',
    model(`${TARGETS}\n    price: { per: 1M tokens, input: 1, output: 1, ▸cached_inptu: 1 }\n${SIZES}`),
    'did you mean "cached_input"?',
  ],
  [
    'max_output above context',
    model(`${TARGETS}\n${PRICE}\n    context: 1Ki\n    max_output: ▸2Ki`),
    'max_output (2048) is more than context (1024)',
  ],
  [
    'default_output above max_output',
    model(`${TARGETS}\n${PRICE}\n${SIZES}\n    default_output: ▸1025`),
    'default_output (1025) is more than max_output (1024)',
  ],
  [
    'a context that is not a number',
    model(`${TARGETS}\n${PRICE}\n    context: ▸large\n    max_output: 1`),
    'context: "large" is not a whole number',
  ],
  [
    'an unknown feature',
    model(`${TARGETS}\n${PRICE}\n${SIZES}\n    allow: [ ▸websearch ]`),
    'entry 1 of allow: "websearch" is not one of',
  ],
  ['an invalid date', model(`${TARGETS}\n${PRICE}\n${SIZES}\n    created: ▸2026-02-30`), 'is not a calendar date'],
  [
    'yes for true',
    model(`${TARGETS}\n${PRICE}\n${SIZES}\n    public: ▸yes`),
    'public must be true or false, not "yes"',
  ],
  [
    'an id with a blank',
    { models: `models:\n  ▸"small one":\n${TARGETS}\n${PRICE}\n${SIZES}` },
    'the name "small one" must be 1 to 200',
  ],
  [
    'an alias that is an id',
    model(`${TARGETS}\n${PRICE}\n${SIZES}\n    aliases: [ a, ▸small ]`),
    `the alias "small" is the model's own id`,
  ],
  [
    'an alias of another model',
    model(
      `${TARGETS}\n${PRICE}\n${SIZES}\n    aliases: [ a ]`,
      `  other:\n${TARGETS}\n${PRICE}\n${SIZES}\n    aliases: [ ▸a ]`,
    ),
    'the alias "a" is taken by the model "small"',
  ],
  [
    'no model at all',
    { models: '', routes: 'routes:\n  - { path: ▸/v1/chat/completions, policy: standard }' },
    'no model is enabled',
  ],
]

const ROUTES: Row[] = [
  ['no routes', { routes: 'routes: ▸[]' }, 'routes needs at least one entry'],
  ['no policy', route('  - ▸{ path: /v1/models }'), 'entry 2 of routes has no "policy"'],
  [
    'a path twice',
    route('  - { path: ▸/v1/chat/completions, policy: standard }'),
    'exists already (line 15); remove one of the two',
  ],
  [
    'a mistyped path',
    { routes: 'routes:\n  - { path: ▸/v1/chat/completion, policy: standard }' },
    'did you mean /v1/chat/completions?',
  ],
  [
    'an unknown path',
    route('  - { path: ▸/v1/embeddings, policy: standard }'),
    'the path /v1/embeddings is unknown; write "kind: raw" to pass its bytes to a provider',
  ],
  [
    'a path of the gateway',
    route('  - { path: ▸/readyz, policy: standard, kind: raw }'),
    '/readyz is served by the gateway itself; remove this route',
  ],
  [
    'a pattern without a kind',
    route('  - { path: ▸"/v1/files/{id}", policy: standard }'),
    '/v1/files/{id} has braces, which only raw routes, /v1/responses/{id}, /v1/models/{id} and /v1/receipts/{id} can have',
  ],
  [
    'a raw path with another name in braces',
    raw('path: ▸"/v1/files/{file}"'),
    'a path can have no other braces than {id}; it matches one or more segments: /v1/files/{id}',
  ],
  [
    'a raw path with two parts in braces',
    raw('path: ▸"/v1/stores/{id}/files/{id}"'),
    '/v1/stores/{id}/files/{id} has {id} twice; write it once, because it matches several segments: /v1/stores/{id}',
  ],
  ['a raw path with a brace too many', raw('path: ▸"/v1/files/{id}}"'), 'a path can have no other braces than {id}'],
  ['half a part in braces', raw('path: ▸"/v1/file-{id}"'), 'in /v1/file-{id}, {id} must be a whole segment'],
  [
    'text after a part in braces',
    raw('path: ▸"/v1/files/{id}.json"'),
    'in /v1/files/{id}.json, {id} must be a whole segment',
  ],
  [
    'an upstream_path for a path with text after {id}',
    raw('path: "/v1/files/{id}/content", upstream_path: ▸/content'),
    '"upstream_path" is not possible for a path with text after {id}; end the path with {id}',
  ],
  [
    'the same raw prefix twice',
    route(
      '  - { path: "/v1/files/{id}", kind: raw, policy: catalog, provider: far, price: free }\n  - { path: ▸"/v1/files/{id}", kind: raw, policy: catalog, provider: far, price: free }',
    ),
    'exists already (line 16)',
  ],
  ['a path without a slash', route('  - { path: ▸v1/models, policy: standard }'), 'path must begin with /'],
  [
    'another kind',
    { routes: 'routes:\n  - { path: /v1/chat/completions, policy: standard, kind: ▸raw }' },
    'is always of kind chat',
  ],
  [
    'the kind chat at another path',
    route('  - { path: /v1/talk, policy: standard, kind: ▸chat }'),
    'the path of kind chat ends in /v1/chat/completions',
  ],
  ['a raw route without provider', route(`  - ▸{ ${RAW}, price: free }`), 'a raw route needs a "provider"'],
  ['a raw route without price', route(`  - ▸{ ${RAW}, provider: far }`), 'a raw route needs a "price"'],
  [
    'a raw route to the demo',
    route(`  - { ${RAW}, price: free, provider: ▸demo }`),
    'the demo provider "demo" supports chat completions only',
  ],
  [
    'a raw route with an unknown provider',
    route(`  - { ${RAW}, price: free, provider: ▸fra }`),
    'unknown provider "fra"; did you mean "far"?',
  ],
  [
    'a raw price for output without a hold',
    route(`  - { ${RAW}, provider: far, price: { per: 1M tokens, input: 1, output: ▸2 } }`),
    'output has no maximum that is known before the answer; write the cost of the most expensive request on the route, such as "hold: $0.50"',
  ],
  [
    'a raw price for output alone',
    route(`  - { ${RAW}, provider: far, hold: $1, price: ▸{ per: 1M tokens, output: 1 } }`),
    'price has no "input", which its other keys require',
  ],
  [
    'a hold on a free route',
    route(`  - { ${RAW}, provider: far, price: free, ▸hold: $1 }`),
    'a free route has no hold; remove this line',
  ],
  [
    'a hold below the price of a request',
    route(`  - { ${RAW}, provider: far, price: { request: $0.02 }, hold: ▸$0.01 }`),
    'hold is less than the price of a request',
  ],
  ...['{ per: 1M tokens, input: 1 }', '{ per: 1M tokens, input: 0, output: 1 }'].map(
    (price): Row => [
      `a hold of zero for ${price}`,
      route(`  - { ${RAW}, provider: far, price: ${price}, hold: ▸$0 }`),
      'hold is $0, and a request is never charged more than its hold; write the cost of the most expensive request, or "price: free"',
    ],
  ),
  [
    'models on a chat route',
    { routes: 'routes:\n  - { path: /v1/chat/completions, policy: standard, ▸models: [ x ] }' },
    '"models" is for raw routes only',
  ],
  ['no models', raw('path: /v1/embeddings, models: ▸[]'), 'models'],
  ['a model twice', raw('path: /v1/embeddings, models: [ a, ▸a ]'), 'models has the same entry twice'],
  ['a model with a comma', raw('path: /v1/embeddings, models: [ ▸"a,b" ]'), 'without blanks and commas'],
  [
    'models for a method without a body',
    raw('path: "/v1/videos/{id}", ▸models: [ x ], methods: [ POST, GET ]'),
    'a GET has no body that names a model; remove this line, or that method',
  ],
  [
    'models at a dialect whose path names the model',
    {
      providers:
        'providers:\n  demo: { dialect: demo }\n  google: { dialect: gemini, base_url: "https://a.example/v1beta", api_key: "${FAR_KEY}" }',
      routes: `${PARTS.routes}\n  - { path: "/v1/{id}", kind: raw, policy: catalog, provider: google, price: free, ▸models: [ x ] }`,
    },
    'at "google" (gemini) the path names the model, not the body; remove this line',
  ],
  [
    'a hold above the maximum',
    route(`  - { ${RAW}, provider: far, price: { request: $0.02 }, hold: ▸$999999999 }`),
    'hold is more than $100000 a request',
  ],
  [
    'a hold on a chat route',
    { routes: 'routes:\n  - { path: /v1/chat/completions, policy: standard, ▸hold: $1 }' },
    '"hold" is for raw routes only',
  ],
  [
    'a raw price without per',
    route(`  - { ${RAW}, provider: far, price: ▸{ input: 1 } }`),
    'price has no "per", which its other keys require',
  ],
  [
    'a provider on a chat route',
    { routes: 'routes:\n  - { path: /v1/chat/completions, policy: standard, ▸provider: far }' },
    '"provider" is for raw routes only',
  ],
  [
    'public with a step that requires a key',
    { routes: 'routes:\n  - { path: /v1/chat/completions, policy: standard, ▸public: true }' },
    'the step "api-key" of the policy "standard" requires a key, so "public" has no effect; remove this line, or use',
  ],
  [
    'unmetered with a step that charges',
    { routes: 'routes:\n  - { path: /v1/chat/completions, policy: standard, ▸unmetered: true }' },
    'the step "credits" of the policy "standard" charges, so "unmetered" has no effect; remove this line, or use',
  ],
  [
    'unmetered at the list of models',
    route('  - { path: /v1/models, policy: catalog, ▸unmetered: true }'),
    '/v1/models costs nothing',
  ],
  [
    'an unknown policy',
    { routes: 'routes:\n  - { path: /v1/chat/completions, policy: ▸standrad }' },
    'policies/standrad.yaml beside gateway.yaml cannot be read: the file does not exist; did you mean "standard"?',
  ],
  [
    'a policy outside of policies/',
    { routes: 'routes:\n  - { path: /v1/chat/completions, policy: ▸../secrets }' },
    'policy must be the name of a file in policies/, without ".yaml": up to 40 letters',
  ],
  [
    'a policy file that ends in .yml',
    { routes: 'routes:\n  - { path: /v1/chat/completions, policy: ▸other }' },
    'the file does not exist; rename policies/other.yml to other.yaml',
    { 'policies/other.yml': 'steps: []' },
  ],
]

/** Every row with its name. The message must contain the sentence of its row. */
export const GATEWAY_ROWS = Object.entries({
  PLANS,
  YAML,
  BRACES,
  TOP,
  ONE_DIALECT,
  STORE,
  TELEMETRY,
  ALERTS,
  REFERENCES,
  PROVIDERS,
  TARGETS: TARGET_ROWS,
  MODELS,
  PRICES,
  CATALOG,
  ROUTES,
}).flatMap(([group, rows]) => rows.map(row => [`${group}: ${row[0]}`, row] as const))
