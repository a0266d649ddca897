/** What the settings of LiteLLM outside of `model_list` have become here, or why they could not. */
import type { Known } from './remarks.ts'

const KEYS_LIVE_IN_THE_DATABASE = 'keys, users and teams live in its database, which is not read'
const MAKE_KEYS = 'make accounts and keys with the commands at the end'
const SINKS: Known = [
  'answers are not sent to other services',
  'take the log (one line an exchange) and /metrics on the admin listener, or write a plugin',
]
const CACHE: Known = [
  'caches are steps of a policy',
  'add the step cache: it is scoped to the account unless it says otherwise',
]
const BREAKER: Known = [
  'targets that fail are left out for a while by the gateway itself, without settings',
  undefined,
  'changed',
]
const REDIS: Known = ['one gateway owns its store', 'nothing is needed: limits and credit are exact without Redis']

export const ROUTER: Readonly<Record<string, Known>> = {
  context_window_fallbacks: [
    'which target is asked does not depend on the length of a prompt',
    'give the larger model an id of its own',
  ],
  content_policy_fallbacks: ['what a provider refuses is told to the client', 'let clients ask another model'],
  allowed_fails: BREAKER,
  cooldown_time: BREAKER,
  disable_cooldowns: BREAKER,
  allowed_fails_policy: BREAKER,
  retry_policy: ['retries do not depend on the kind of error', 'its setting attempts at the step route'],
  retry_after: ["pauses between retries are the gateway's own", undefined, 'changed'],
  model_group_retry_policy: [
    'retries do not depend on the model',
    'give such models a route and a policy of their own',
  ],
  max_fallbacks: ['attempts are counted over all targets', 'the setting attempts at the step route'],
  redis_host: REDIS,
  redis_port: REDIS,
  redis_password: REDIS,
  redis_url: REDIS,
  cache_responses: CACHE,
  cache_kwargs: CACHE,
  routing_strategy_args: ['the step route has no such settings', 'see plugins/route/README.md'],
  enable_pre_call_checks: ['a prompt that does not fit is refused, and other targets are not picked by its length'],
  optional_pre_call_checks: ['stickiness is a setting of the step route', 'sticky: key, account or conversation'],
  enable_tag_filtering: ['targets are not picked by tags', 'give each group a model of its own'],
  provider_budget_config: ['a provider has no budget here', 'give accounts credit, and keys a spending cap'],
}

export const LITELLM: Readonly<Record<string, Known>> = {
  callbacks: SINKS,
  success_callback: SINKS,
  failure_callback: SINKS,
  service_callback: SINKS,
  langfuse_default_tags: SINKS,
  turn_off_message_logging: ['prompts and answers are never logged', undefined, 'changed'],
  redact_user_api_key_info: ['keys are never logged', undefined, 'changed'],
  cache: CACHE,
  cache_params: CACHE,
  context_window_fallbacks: ROUTER['context_window_fallbacks']!,
  content_policy_fallbacks: ROUTER['content_policy_fallbacks']!,
  allowed_fails: BREAKER,
  cooldown_time: BREAKER,
  set_verbose: ['the log has one line an exchange', undefined, 'changed'],
  json_logs: ['the log is JSON already', undefined, 'changed'],
  ssl_verify: ['certificates are always checked', 'add your authority with NODE_EXTRA_CA_CERTS'],
  modify_params: ['conversations are fitted to each provider by its dialect', undefined, 'changed'],
  max_budget: [
    'there is no budget of the whole gateway',
    'credit of the accounts is the limit: account create --credit',
  ],
  budget_duration: ['credit is not renewed by time', 'give it when it is due: account credit --amount'],
  max_internal_user_budget: [
    'people have no budget of their own',
    'credit of the account, and a spending cap on each key',
  ],
  max_user_budget: ['users in requests have no budget', 'make an account for each customer'],
  default_max_internal_user_budget: ['people have no budget of their own', 'credit of the account'],
  default_internal_user_params: [KEYS_LIVE_IN_THE_DATABASE, MAKE_KEYS],
  default_team_settings: [KEYS_LIVE_IN_THE_DATABASE, MAKE_KEYS],
  default_team_params: [KEYS_LIVE_IN_THE_DATABASE, MAKE_KEYS],
  upperbound_key_generate_params: ['operators make the keys, and no rule holds for them', MAKE_KEYS],
  public_model_groups: ['models are public unless they say public: false', undefined, 'changed'],
  default_fallbacks: ['it is no list of models'],
  guardrails: ['guardrails are steps of a policy', 'use the step guard, or a plugin of your own'],
  mcp_aliases: ["tools of MCP servers are the client's affair"],
}

export const GENERAL: Readonly<Record<string, Known>> = {
  database_url: [KEYS_LIVE_IN_THE_DATABASE, MAKE_KEYS],
  store_model_in_db: ['models that were added on its page are not in this file', 'add them to gateway.yaml'],
  store_prompts_in_spend_logs: ['prompts are not stored'],
  disable_spend_logs: ['every exchange has a receipt', undefined, 'changed'],
  database_connection_pool_limit: ["the store is a file of the gateway's own", undefined, 'changed'],
  database_connection_timeout: ["the store is a file of the gateway's own", undefined, 'changed'],
  allow_requests_on_db_unavailable: ['nothing is sent before its hold is on disk'],
  alerting: ['nobody is alerted by the gateway', 'watch /metrics'],
  alerting_threshold: ['nobody is alerted by the gateway', 'watch /metrics'],
  alert_types: ['nobody is alerted by the gateway', 'watch /metrics'],
  alerting_args: ['nobody is alerted by the gateway', 'watch /metrics'],
  background_health_checks: ['providers are not asked for their health; what fails is left out for a while'],
  health_check_interval: ['providers are not asked for their health; what fails is left out for a while'],
  custom_auth: ['its code is Python', 'write a plugin that gives key and account'],
  enable_jwt_auth: ['tokens of an identity provider are a step of a policy', 'use the step jwt in place of api-key'],
  litellm_jwtauth: ['tokens of an identity provider are a step of a policy', 'use the step jwt in place of api-key'],
  allowed_ips: ['addresses are not checked', 'do it in what stands in front of the gateway'],
  allowed_routes: ['only the routes of gateway.yaml are served', undefined, 'changed'],
  pass_through_endpoints: ['other paths are raw routes, with a price', 'see Raw routes in policies/README.md'],
  user_header_name: ['customers are accounts, not headers', 'make an account for each customer'],
  proxy_batch_write_at: ['every charge is written at once', undefined, 'changed'],
  proxy_budget_rescheduler_min_time: [
    'credit is not renewed by time',
    'give it when it is due: account credit --amount',
  ],
  proxy_budget_rescheduler_max_time: [
    'credit is not renewed by time',
    'give it when it is due: account credit --amount',
  ],
  max_response_size_mb: ['whole answers end at 32 MiB', undefined, 'changed'],
  completion_model: ['a request says which model it is for'],
  infer_model_from_keys: ['models stand in the file'],
  use_redis_transaction_buffer: REDIS,
  coordinator_redis_url: REDIS,
}

export const TOP: Readonly<Record<string, Known>> = {
  environment_variables: [
    'secrets stand in the file; none is copied',
    'set them in the environment, or in .env beside gateway.yaml',
    'yours',
  ],
  include: ['only this file is read', 'import the others too, and put the results together'],
  guardrails: ['guardrails are steps of a policy', 'use the step guard, or a plugin of your own'],
  mcp_servers: ["tools of MCP servers are the client's affair"],
  vector_store_registry: ["searching documents is the client's affair"],
  files_settings: ['files go through raw routes', 'see Raw routes in policies/README.md'],
  finetune_settings: ['fine-tuning goes through raw routes', 'see Raw routes in policies/README.md'],
  callback_settings: SINKS,
  prompts: ['prompts of the operator are a step of a policy', 'use the step prompt'],
  search_tools: ["searching is the client's affair"],
}
