/** The settings of LiteLLM: their equivalents, or why they are not converted and what to use instead. */

/** A row of the table, for one or more settings. */
interface Row {
  readonly fate: 'converted' | 'unneeded' | 'lost'
  /** Converted: its name here. Otherwise the reason. */
  readonly text: string
  readonly instead: string | null
}

/** The parts of a file that have their own settings. */
export type Section =
  | 'row'
  | 'params'
  | 'info'
  | 'router'
  | 'litellm'
  | 'general'
  | 'top'
  | 'key'
  | 'user'
  | 'team'
  | 'credential'

/**
 * Each line: `fate | settings | name here, or reason | what to use instead`. A setting is `NAME`, or `SECTION.NAME` for one
 * section only; `*` matches any letters.
 */
const TABLE = `
converted | model_name | the id of a model
converted | litellm_params model custom_llm_provider | the provider and model of a target
converted | model_info | price and sizes of the model
converted | api_key azure_ad_token | api_key of the provider
converted | api_base base_url api_version organization | base_url, api_version and headers of the provider
converted | headers extra_headers | headers of the provider
converted | aws_access_key_id aws_secret_access_key aws_session_token aws_region_name | aws of the provider
converted | vertex_project vertex_location vertex_credentials | base_url and service_account of the provider
converted | litellm_credential_name credential_list credential_name credential_values | keys of the providers
converted | weight order | weight and priority of a target | write it in litellm_params
converted | rpm tpm | a step rate-limit of the model | write it in litellm_params, and import again
converted | params.max_parallel_requests | max_inflight of a target
converted | max_tokens max_completion_tokens | default_output of the model
converted | max_input_tokens max_output_tokens | context and max_output of the model
converted | base_model | base_model of a target
converted | *_cost_per_token cache_*_token_cost | price of the model | write it in model_info
converted | supports_reasoning mode description | reasoning and description of the model
converted | timeout stream_timeout litellm.request_timeout | timeouts of the provider
converted | num_retries fallbacks default_fallbacks routing_strategy drop_params | targets and the step route
converted | model_group_alias | aliases of the model
converted | global_max_parallel_requests max_request_size_mb | limits
converted | default_key_generate_params key.models key.duration key.rpm_limit key.tpm_limit | the commands that create keys
converted | litellm.max_budget litellm.budget_duration timezone max_internal_user_budget internal_user_budget_duration default_internal_user_params default_team_params key.max_budget key.budget_duration key.soft_budget key.budget_limits user.max_budget user.budget_duration user.soft_budget user.budget_limits team.max_budget team.budget_duration team.soft_budget team.budget_limits | budgets of the step credits, and of accounts and keys
converted | master_key salt_key | operator tokens
unneeded | set_verbose debug_level suppress_debug_info json_logs detailed_debug | the log has one line an exchange
unneeded | disable_error_logs global_disable_no_log_param log_raw_request_response | the log has no prompts
unneeded | turn_off_message_logging redact_* request_correlation_in_logs | the log has no prompts and no keys
unneeded | store_prompts_in_spend_logs disable_spend_logs store_audit_logs maximum_spend_logs_* disable_spend_updates proxy_batch_write_at | every exchange has a receipt
unneeded | telemetry litellm_license proxy_base_url | the gateway sends no telemetry and has no licence key
unneeded | general.port general.host num_workers | listen and threads in gateway.yaml replace it
unneeded | database_* allow_requests_on_db_unavailable | the store is a file, or store: postgres://…
unneeded | store_model_in_db use_redis_* supported_db_objects | all models are in gateway.yaml
unneeded | top.x-* | it contains anchors of the file
unneeded | db_model created_* updated_* version model_id | it only describes a row of its database
unneeded | info.id info.metadata params.litellm_trace_id credential_info | it is only a description
unneeded | litellm_provider info.key supports_* supported_* | the dialect and the catalog determine it
unneeded | redis_* coordinator_redis_url enable_redis_auth_cache | a single process needs no other server
unneeded | cooldown_time allowed_fails allowed_fails_policy disable_cooldowns disable_background_health_check background_health_checks health_check_* use_shared_health_check enable_health_check_routing | failing targets are avoided for a while
unneeded | retry_after router_general_settings | pauses between retries are fixed
unneeded | enable_pre_call_check enable_pre_call_checks | a prompt that is too long is refused
unneeded | modify_params disable_hf_tokenizer_download user_api_key_cache_ttl enable_preview_features client_ttl proxy_batch_polling_interval disable_prisma_schema_update disable_master_key_return disable_adding_master_key_hash_to_db disable_responses_id_security disable_retry_on_max_parallel_request_limit_error disable_add_transform_inline_image_block | the gateway has no such step
unneeded | use_chat_completions_url_for_anthropic_messages | each provider is called in its own format
unneeded | fail_closed_budget_enforcement disable_budget_reservation enforce_fallback_budget missing_session_id | no request is sent before its hold is stored
unneeded | public_model_groups default_model completion_model | models are public, and a request names its model
unneeded | use_litellm_proxy params.api_base params.api_version | the address follows from other settings of the row
unneeded | params.base_url params.api_key | another setting of the row has precedence
unneeded | check_provider_endpoint infer_model_from_keys | wildcard models come from the catalog
unneeded | model_cost_map_url | the catalog has prices | catalog: FILE in gateway.yaml
unneeded | key.permissions general.allowed_routes max_response_size_mb | keys can only use the routes of gateway.yaml
unneeded | require_auth_for_metrics_endpoint | /metrics is on the admin listener
lost | temperature top_p top_k min_p presence_penalty frequency_penalty repetition_penalty stop seed n user stream stream_options logprobs response_format tools tool_choice parallel_tool_calls service_tier modalities verbosity reasoning_effort reasoning thinking params.metadata num_ctx num_predict num_gpu keep_alive safety_settings guardrailConfig performanceConfig web_search_options provider transforms litellm.default_params extra_body context_window extra_query budget_tokens input_type dimensions encoding_format | a model has no default parameters | let clients send them
lost | additional_drop_params params.drop_params allowed_openai_params | the dialect determines the parameters of a target
lost | mock_response mock_timeout | answers cannot be mocked | use the dialect demo for tests
lost | params.max_retries params.num_retries params.request_timeout | it is set at the step route or the provider
lost | ssl_verify ssl_certificate | certificates are always checked | set NODE_EXTRA_CA_CERTS
lost | cache_control_injection_points | cache marks are not added | let clients send cache_control
lost | merge_reasoning_content_in_choices | reasoning stays in reasoning_content
lost | aws_role_name aws_session_name aws_external_id aws_sts_endpoint aws_profile_name aws_web_identity_token | roles and profiles are not resolved | set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a Bedrock API key
lost | tenant_id client_id client_secret azure_username azure_password azure_scope enable_azure_ad_token_refresh | tokens of Entra are not requested | use a key of the resource
lost | aws_batch_role_arn s3_bucket_name batch_settings files_settings finetune_settings max_file_size_mb assistant_settings assistants_config use_in_pass_through pass_through_endpoints pass_through_request_timeout use_client_credentials_pass_through_routes | other paths are raw routes, with a price | see Raw routes in policies/README.md
lost | tags tag_filtering_match_any tag_routing_prefix enable_tag_filtering region_name reject_clientside_metadata_tags extra_spend_tag_headers disable_end_user_cost_tracking* key.metadata | tags and regions do not select targets | give each group its own model
lost | access_groups team_id team_public_model_name blocked | models have no groups | key create --models
lost | *callback callbacks *_callbacks *_callback_params callback_settings langfuse_* prometheus_* custom_prometheus_* datadog_* otel | answers are not sent to other services | use the log and /metrics, or write a plugin
lost | cache cache_params cache_responses cache_kwargs caching_groups | a cache is a step | add the step cache
lost | guardrails guardrail_list policies policy_attachments content_policy_fallback moderation_* | guardrails are steps | add the step guard, or a plugin
lost | retry_policy model_group_retry_policy max_fallbacks | errors share one count of attempts | attempts: of the step route
lost | context_window_fallbacks content_policy_fallbacks | prompts and refusals do not select targets | let clients use another model
lost | optional_pre_call_checks deployment_affinity_ttl_seconds | the step route has stickiness | sticky: of the step route
lost | routing_strategy_args routing_groups | the step route has its own settings | see plugins/route/README.md
lost | default_priority polling_interval priority_reservation* | requests do not queue | add the step concurrency
lost | *.max_parallel_requests default_max_parallel_requests | requests in progress are limited by a step | add the step concurrency
lost | ignore_invalid_deployments | a configuration with a mistake is rejected as a whole
lost | max_user_budget default_max_internal_user_budget | only the budget of default_internal_user_params is converted | per: caller at the step credits
lost | soft_budget | a mark needs a budget | at: of a budget of the step credits
lost | params.max_budget params.budget_duration provider_budget_config | a provider and its targets have no budget | limit the spending at the provider
lost | model_max_budget | a budget covers all models | key create --models, and key budget for that key
lost | tag_budget_config | a budget per tag has the same amount for all values | the step tags, and per: tag NAME at the step credits
lost | max_end_user_budget* | an end user is a tag | the step tags, and per: tag NAME at the step credits
lost | max_budget budget_duration | a budget is of an account, a key, a caller or a tag | budgets: at the step credits
lost | budget_reset_time | a day begins at midnight of its time zone | zone: of a budget
lost | disable_reset_budget | each period starts at zero | every: life of a budget
lost | max_ui_session_budget | a session of the dashboard has no budget | key budget
unneeded | proxy_budget_rescheduler_* | periods begin by the clock, without a reset job
lost | default_team_settings upperbound_key_generate_params key_generation_settings enable_key_alias_format_validation role_permissions service_account_settings default_team_disabled allow_user_auth disable_auto_add_proxy_admin_to_teams custom_key_generate user_header_name user_header_mappings enforced_params enforce_user_param key.team_id key.user_id key.aliases user.* team.* | accounts and keys are created by commands | account create, key create
lost | enforce_fallback_model_access | a key for a model may use its fallbacks
lost | custom_auth custom_provider_map pre_call_rules post_call_rules custom_sso custom_ui_sso_sign_in_handler | its code is Python | write a plugin
lost | enable_jwt_auth litellm_jwtauth enable_oauth2_auth enable_oauth2_proxy_auth oauth2_config_mappings | identity tokens are checked by a step | use the step jwt in place of api-key
lost | litellm_key_header_name | keys are sent as Authorization: Bearer KEY, or as x-api-key on /v1/messages
lost | public_routes admin_only_routes key.allowed_routes | each route has a policy | public: true, or a policy
lost | allowed_ips use_x_forwarded_for | addresses are checked in front of the gateway | trust_proxy in gateway.yaml
lost | key_management_* use_azure_key_vault use_google_kms | secrets come from the environment or files | a variable or a file in gateway.yaml
lost | forward_* return_response_headers allow_client_side_credentials general.custom_headers | headers of clients and providers are not forwarded | headers: of the provider
lost | alerting alerting_* alert_* spend_report_frequency | alerts are a section of the gateway | alerts: in gateway.yaml
lost | ui_* proxy_logout_url | the dashboard is another one | dashboard: in gateway.yaml, person invite
lost | mcp_* agent_list agents search_tools vector_store_registry user_mcp_management_mode require_end_user_mcp_access_defined | tools are called by the client
lost | prompts | prompts of the operator are a step | add the step prompt
lost | embedding_model image_generation_model moderation_model general.*_model | a request names its model
lost | enable_json_schema_validation | the provider checks the answer against its schema
lost | always_include_stream_usage include_cost_in_streaming_usage | clients ask for usage | stream_options
lost | cost_discount_config cost_margin_config | a margin is a price | write price: of the model
lost | disable_stop_sequence_limit | a request can have at most four stop sequences
lost | force_ipv4 | the operating system chooses the address family
lost | allow_unmanaged_response_ids | only kept responses are found | keep_responses at the route
lost | litellm.api_key litellm.api_base litellm.api_version litellm.organization litellm.headers litellm.max_tokens litellm.vertex_* litellm.aws_* default_vertex_config default_litellm_params | defaults for all rows are not read | write them in each row, or in credential_list, and import again
lost | environment_variables | secrets are not copied | set them in the environment, or in .env beside gateway.yaml
lost | include | only this file is read | import the others too, and join the results
lost | worker_registry | replicas share a store | see src/deploy/README.md
lost | *cost* | the price has no such part | raise the price of the model
`

const EXACT = new Map<string, Row>()
const PATTERNS: (readonly [RegExp, Row])[] = []
for (const line of TABLE.trim().split('\n')) {
  const [fate, settings, text, instead = null] = line.split(' | ') as [Row['fate'], string, string, string?]
  for (const setting of settings.split(' ')) {
    const row: Row = { fate, text, instead }
    if (!setting.includes('*')) EXACT.set(setting, row)
    else {
      const whole = setting.includes('.') ? setting : `*.${setting}`
      PATTERNS.push([new RegExp(`^${whole.replaceAll('.', '\\.').replaceAll('*', '[\\w-]*')}$`), row])
    }
  }
}

/** The row of a setting; rows for its section have precedence. Undefined: not in the table. */
export function settingOf(section: Section, name: string): Row | undefined {
  const whole = `${section}.${name}`
  return EXACT.get(whole) ?? EXACT.get(name) ?? PATTERNS.find(([pattern]) => pattern.test(whole))?.[1]
}
