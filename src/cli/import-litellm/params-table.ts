/** What the rows of `model_list` may have beside what a target is made of, and why it is not carried. */
import type { Known } from './remarks.ts'

const CLIENTS_SEND: Known = ['a model here has no parameters of its own', 'let clients send it']
const ROLES: Known = ['roles are not assumed', 'set keys of the role']
const ENTRA: Known = ['Entra is not asked for tokens', 'use a key of the resource, or auth: bearer with a token']
const GUARD: Known = ['guardrails are steps of a policy', 'use the step guard, or a plugin of your own']
const BUDGET: Known = ['a provider has no budget here', 'give accounts credit, and keys a spending cap']
const TRIES: Known = ['how often is tried is said once, at the step route', 'its setting attempts']
const BATCHES: Known = ['batches go through raw routes', 'see Raw routes in policies/README.md']
const HEALTH: Known = ['providers are not asked for their health; what fails is left out for a while']
const TAGS: Known = ['targets are not picked by tags', 'give each group a model of its own, and keys a list of models']
const BREAKER: Known = [
  'targets that fail are left out for a while by the gateway itself, without settings',
  undefined,
  'changed',
]
const NOTES: Known = ['it only describes, and here nothing depends on it', undefined, 'changed']
const SOURCE_ID: Known = ['here a target is its provider and model', undefined, 'changed']

/** Parameters of a request that LiteLLM adds where a client sends none. */
const SENT_BY_CLIENTS = [
  'temperature',
  'top_p',
  'top_k',
  'min_p',
  'presence_penalty',
  'frequency_penalty',
  'repetition_penalty',
  'stop',
  'seed',
  'n',
  'user',
  'stream',
  'stream_options',
  'logprobs',
  'response_format',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'service_tier',
  'modalities',
  'verbosity',
  'reasoning_effort',
  'reasoning',
  'metadata',
  'num_ctx',
  'keep_alive',
  'safety_settings',
  'guardrailConfig',
  'performanceConfig',
  'web_search_options',
  'provider',
  'transforms',
]

/** By the key in `litellm_params`. */
export const PARAMS: Readonly<Record<string, Known>> = {
  ...Object.fromEntries(SENT_BY_CLIENTS.map(key => [key, CLIENTS_SEND])),
  thinking: ['a model here has no parameters of its own', 'let clients send reasoning_effort'],
  extra_body: [
    'nothing is added to the body of a request',
    'let clients send it, with unknown_fields: pass at the step schema',
  ],
  drop_params: ['it is said once, at the step route', 'on_dropped: tell or refuse'],
  additional_drop_params: ['single parameters cannot be left out', 'ask clients not to send them'],
  allowed_openai_params: ['what a target takes is known by its dialect', 'see src/providers/dialects/README.md'],
  mock_response: ['answers are not made up', 'use the dialect demo for tests'],
  mock_timeout: ['answers are not made up', 'use the dialect demo for tests'],
  max_retries: TRIES,
  num_retries: TRIES,
  request_timeout: ['it is said with timeout', 'timeouts.total of the provider'],
  cooldown_time: BREAKER,
  allowed_fails: BREAKER,
  max_budget: BUDGET,
  budget_duration: BUDGET,
  tags: TAGS,
  region_name: ['targets are not picked by region', 'give each region a model of its own'],
  guardrails: GUARD,
  api_key: ['the row has another credential, which is used', undefined, 'changed'],
  base_url: ['api_base counts in its place', undefined, 'changed'],
  api_base: ['the address of this provider is put together from its other settings', 'base_url of the provider'],
  api_version: ['the address of this provider has its version', 'base_url of the provider'],
  aws_role_name: [
    'roles are not assumed',
    'set keys of the role as AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and aws.session_token',
  ],
  aws_session_name: ROLES,
  aws_external_id: ROLES,
  aws_sts_endpoint: ROLES,
  aws_profile_name: ['profiles are not read', 'set the keys of the profile in the environment'],
  aws_web_identity_token: ['web identities are not exchanged', 'set AWS keys, or a Bedrock API key as api_key'],
  aws_batch_role_arn: BATCHES,
  s3_bucket_name: BATCHES,
  tenant_id: ENTRA,
  client_id: ENTRA,
  client_secret: ENTRA,
  azure_username: ENTRA,
  azure_password: ENTRA,
  azure_scope: ENTRA,
  enable_azure_ad_token_refresh: ENTRA,
  base_model: [
    'it says whether the model thinks and finds its price with --prices, and nothing else',
    undefined,
    'changed',
  ],
  use_in_pass_through: ['other paths are raw routes', 'see Raw routes in policies/README.md'],
  use_litellm_proxy: ['it is asked as it stands', undefined, 'changed'],
  max_file_size_mb: ['files go through raw routes', 'see Raw routes in policies/README.md'],
  merge_reasoning_content_in_choices: ['thoughts stay in reasoning_content'],
  cache_control_injection_points: ['marks for caches are not put in', 'let clients send cache_control'],
  ssl_verify: ['certificates are always checked', 'add your authority with NODE_EXTRA_CA_CERTS'],
  litellm_trace_id: NOTES,
}

/** By the key in `model_info`. */
export const INFO: Readonly<Record<string, Known>> = {
  id: SOURCE_ID,
  base_model: PARAMS['base_model']!,
  db_model: ['here all models stand in the file', undefined, 'changed'],
  litellm_provider: ['the provider follows from litellm_params.model', undefined, 'changed'],
  access_groups: ['there are no groups of models', 'give keys a list of models: key create --models'],
  team_id: ['a model belongs to no team', 'set public: false, and name it in the keys that may use it'],
  team_public_model_name: ['a model belongs to no team', 'set public: false, and name it in the keys that may use it'],
  blocked: ['what is switched off in its database is not known', 'enabled: false'],
  health_check_model: HEALTH,
  health_check_timeout: HEALTH,
  health_check_voice: HEALTH,
  disable_background_health_check: ['providers are not asked for their health', undefined, 'changed'],
  rpm: ['limits are read from litellm_params', 'write it there, and import again'],
  tpm: ['limits are read from litellm_params', 'write it there, and import again'],
  tags: TAGS,
  metadata: NOTES,
  created_at: NOTES,
  updated_at: NOTES,
  created_by: NOTES,
  updated_by: NOTES,
  version: NOTES,
}

/** By the key in a row of `model_list` itself. */
export const ROW: Readonly<Record<string, Known>> = {
  model_id: SOURCE_ID,
  tags: TAGS,
}
