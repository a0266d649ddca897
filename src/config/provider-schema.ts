/** `providers` of gateway.yaml as JSON Schema: one provider. */
import { DIALECT_NAMES, PROFILE_NAMES } from '../providers/dialects/dialect-names.ts'
import { DIALECT_HINTS, PROFILE_HINTS } from './hints.ts'
import { flag, map, measured, span, text, whole } from './schema-parts.ts'

const MISSING_FINISH =
  'If an answer ends normally without a finish reason: error reports an error, stop adds the finish reason. An answer without content and without a finish reason is always an error.'

export const PROVIDER = map(
  'An account at a model provider.',
  {
    dialect: {
      enum: [...DIALECT_NAMES, 'demo'],
      hints: DIALECT_HINTS,
      description:
        'The wire format of the provider. openai: chat completions; azure, mistral, deepseek, groq, perplexity, together, zai: variants of it; anthropic: Messages; gemini: generateContent; vertex, vertex-anthropic: Google Cloud; bedrock: Converse; bedrock-invoke: Claude on Bedrock; cohere: Chat API version 2; ollama: its native chat API; demo: embedded, without a network.',
    },
    profile: {
      enum: PROFILE_NAMES,
      hints: PROFILE_HINTS,
      description:
        'The dialect openai only: the product whose parameters the provider supports, such as vllm. Default: by the host name; to unknown hosts all parameters are sent, and custom tools as functions.',
    },
    base_url: text(
      'The base URL; the dialect appends its paths: https://api.example.com/v1. http:// is allowed for loopback addresses only.',
    ),
    api_key: text('The API key, as ${NAME} or ${file:PATH}. Without it Tollgate sends no Authorization header.'),
    api_keys: {
      type: 'array',
      minItems: 1,
      uniqueItems: true,
      description:
        'Several keys in place of api_key. Tollgate uses them in turn and skips a key for a minute after the provider rejects it.',
      items: text('An API key, as ${NAME} or ${file:PATH}.'),
    },
    aws: map(
      'Bedrock: AWS credentials in place of api_key.',
      {
        access_key_id: text('The access key id, as ${NAME} or ${file:PATH}.'),
        secret_access_key: text('The secret access key, as ${NAME} or ${file:PATH}.'),
        session_token: text('The session token of temporary credentials, as ${NAME} or ${file:PATH}.'),
        region: text('The region that requests are signed for: eu-central-1.'),
      },
      { required: ['access_key_id', 'secret_access_key', 'region'] },
    ),
    service_account: text(
      'Vertex AI: a service account in place of api_key: its JSON key file as ${file:PATH}. Tollgate renews its access tokens.',
    ),
    api_version: text('Azure: the API version, such as 2024-10-21. Not needed when base_url ends in /openai/v1.'),
    auth: {
      enum: ['api-key', 'bearer'],
      description:
        'Azure: the kind of api_key. api-key: a resource key; bearer: a Microsoft Entra access token. Default: api-key.',
    },
    headers: {
      type: 'object',
      description:
        'Additional headers for each request to the provider. They replace those of the dialect, such as anthropic-version.',
      additionalProperties: { type: 'string', description: 'The value of the header.' },
    },
    allow_insecure: flag(
      'Allows http:// to another machine. Keys and prompts then cross the network unencrypted.',
      false,
    ),
    timeouts: map(
      'Timeouts of a request to the provider.',
      {
        connect: span('Time to open a connection.', '5s'),
        first_byte: span('Time until the response headers; for a stream, until the first event.', '120s'),
        idle: span('Time between two chunks of an answer.', '60s'),
        total: span('Time for the whole exchange.', '15m'),
      },
      { default: {} },
    ),
    connections: whole('The maximum number of connections to the provider.', 1, 65_535, { default: 4096 }),
    missing_finish: { enum: ['error', 'stop'], description: MISSING_FINISH, default: 'error' },
    pace: measured('duration', '0ms', '1m')('The demo provider only: the pause between two tokens. Default: 25ms.'),
  },
  { required: ['dialect'] },
)
