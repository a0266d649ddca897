import { describe, expect, test } from 'vitest'
import { ERRORS, type ErrorCode } from '#contract'
import { cleanMessage, detailsOf, errorDetails, failureOf } from '../../../src/providers/dialects/failure.ts'
import { retryAfterOf } from '../../../src/providers/dialects/waits.ts'
import { expectWithin } from '../../helpers/promised.ts'

const NOW = Date.parse('2026-11-20T12:00:00Z')

const fail = (status: number, body: unknown, headers: Record<string, string> = {}) =>
  failureOf(status, headers, errorDetails(Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))), NOW)

const openai = (fields: Record<string, unknown>) => ({
  error: { message: 'Words of the provider.', type: 'invalid_request_error', param: null, code: null, ...fields },
})
const google = (code: number, status: string, message: string, details: unknown[] = []) => ({
  error: { code, message, status, details },
})

describe('a gateway secret that the provider echoes', () => {
  const SECRET = 'correct://horse battery-staple'
  const redact = (text: string) => text.replaceAll(SECRET, '[secret]')

  test.each<[where: string, fields: Record<string, unknown>]>([
    ['in the message', { message: `The key ${SECRET} is not for this model.` }],
    ['where the message is cut for the client', { message: `${'x'.repeat(380)} ${SECRET}` }],
    ['where the message is cut for the log', { message: `${'x '.repeat(490)}${SECRET}` }],
    ['in all the other fields', { type: SECRET, code: SECRET, param: SECRET }],
  ])('%s', (_where, fields) => {
    const failure = failureOf(400, {}, detailsOf(openai(fields)), NOW, redact)
    expect(failure.code).toBe('upstream_rejected')
    expect(JSON.stringify(failure)).not.toMatch(/horse|batter|corr/)
  })
})

describe('secrets that the gateway does not know', () => {
  const SIGNATURE = 'c46ff1667371d6820ea25a32313660f2615a94687d9150b306777247c34140df'
  const said = (fields: { message?: string; param?: string }) => ({
    message: null,
    type: null,
    code: null,
    param: null,
    ...fields,
  })

  test('an AWS signature is removed', () => {
    const message = `The signature should have been ${SIGNATURE}`
    const failure = failureOf(400, {}, said({ message, param: SIGNATURE }), NOW)
    expect(JSON.stringify(failure)).not.toContain(SIGNATURE.slice(0, 12))
    expect(failure.param).toBeNull()
  })

  test('half of a secret is removed where a long text is cut', () => {
    const secret = 'AbCd/efGh+ijKl/mnOp=qr'
    const redact = (text: string) => text.replaceAll(secret, '[secret]')
    for (let shift = 0; shift < secret.length; shift++) {
      const failure = failureOf(
        400,
        {},
        said({ message: `${'y'.repeat(shift)} ${`${secret} `.repeat(2000)}` }),
        NOW,
        redact,
      )
      expect(JSON.stringify(failure)).not.toContain('AbCd')
    }
  })

  test.each(['gsk_0123456789abcdef', 'key_ABCDEF0123456', '0123456789abcdef0123456789abcdef'])(
    'a parameter path with %s is dropped',
    param => {
      expect(failureOf(400, {}, said({ message: 'No', param: `p.${param}` }), NOW).param).toBeNull()
    },
  )

  test.each([
    ['Request was {"model":"m","messages":[{"role":"user","content":"keep quiet"}]}', 'Request was {"model":"m","…'],
    ['Bad body: {\\"input\\":\\"keep quiet\\"}', 'Bad body: {\\"…'],
    ["Input should be a string [type=string_type, input_value={'text': 'keep quiet'}]", '[type=string_type, …'],
    ['--x\r\nContent-Disposition: form-data; name="file"\r\n\r\nkeep quiet', '--x\r\n…'],
  ])('text of the request is kept in the message for the client and omitted from the log: %s', (message, end) => {
    const failure = failureOf(400, {}, said({ message }), NOW)
    expect(failure.detail.endsWith(end), failure.detail).toBe(true)
    expect(failure.message).toContain('keep quiet')
  })

  test.each([
    "Invalid 'messages[0].content': string too long.",
    'Missing required parameter: input.',
    'text: field required',
  ])('a message without quotes is logged whole: %s', message => {
    expect(failureOf(400, {}, said({ message }), NOW).detail).toContain(message)
  })
})

describe('the error code of a status and a body', () => {
  test.each<[name: string, status: number, body: unknown, code: ErrorCode, message?: string]>([
    // A request that the provider refuses: the client gets the provider's message, because only it explains the refusal.
    ['OpenAI 400', 400, openai({}), 'upstream_rejected', 'Words of the provider.'],
    ['OpenAI 422', 422, openai({}), 'upstream_rejected', 'Words of the provider.'],
    ['OpenAI 409', 409, openai({}), 'upstream_rejected', 'Words of the provider.'],
    ['a bare string', 400, '"Words."', 'upstream_rejected', 'Words.'],
    ['Ollama: the error is a string', 400, { error: 'invalid options' }, 'upstream_rejected', 'invalid options'],
    ['xAI: code and error side by side', 400, { code: 'bad', error: 'No.' }, 'upstream_rejected', 'No.'],
    [
      'OpenRouter: the message of the provider that it called',
      400,
      {
        error: {
          code: 400,
          message: 'Provider returned error',
          metadata: { provider_name: 'Some', raw: '{"error":{"message":"No such tool.","type":"invalid"}}' },
        },
      },
      'upstream_rejected',
      'No such tool.',
    ],
    [
      'OpenRouter: that message as plain text',
      400,
      { error: { code: 400, message: 'Provider returned error', metadata: { raw: ' No such tool. ' } } },
      'upstream_rejected',
      'No such tool.',
    ],
    [
      'OpenRouter: no message of the provider that it called',
      400,
      { error: { code: 400, message: 'Provider returned error', metadata: { raw: '{}' } } },
      'upstream_rejected',
      'Provider returned error',
    ],
    [
      'OpenRouter: a conversation that is too long for the provider that it called',
      400,
      {
        error: {
          code: 400,
          message: 'Provider returned error',
          metadata: { raw: '{"message":"The prompt is too long: 9 tokens"}' },
        },
      },
      'context_length_exceeded',
      'The prompt is too long: 9 tokens',
    ],
    ['FastAPI: detail', 422, { detail: 'Not like that.' }, 'upstream_rejected', 'Not like that.'],
    [
      'FastAPI: a list of details',
      422,
      { detail: [{ type: 'missing', loc: ['body', 'messages', 0, 'content'], msg: 'Field required' }] },
      'upstream_rejected',
      'body.messages.0.content: Field required',
    ],
    [
      'Mistral 422: no wrapper, and the message is an object',
      422,
      {
        object: 'error',
        message: {
          detail: [{ type: 'extra_forbidden', loc: ['body', 'user'], msg: 'Extra inputs are not permitted' }],
        },
        type: 'invalid_request_error',
        param: null,
        code: null,
      },
      'upstream_rejected',
      'body.user: Extra inputs are not permitted',
    ],
    [
      'vLLM: no wrapper',
      400,
      { object: 'error', message: 'No.', type: 'BadRequestError', code: 400 },
      'upstream_rejected',
      'No.',
    ],
    ['Cohere: only a message', 400, { id: 'x', message: 'invalid role' }, 'upstream_rejected', 'invalid role'],
    ['Google: an error in an array', 400, [google(400, 'INVALID_ARGUMENT', 'Bad.')], 'upstream_rejected', 'Bad.'],
    [
      'OpenRouter: a number as its code',
      400,
      { error: { code: 400, message: 'No.' }, user_id: 'u' },
      'upstream_rejected',
      'No.',
    ],
    [
      'plain text, as a parser writes it',
      422,
      'Failed to deserialize the JSON body: missing field `content` at line 1',
      'upstream_rejected',
      'Failed to deserialize the JSON body: missing field `content` at line 1',
    ],
    ['an HTML page', 400, '<html><h1>400 Bad Request</h1>nginx</html>', 'upstream_error'],
    ['JSON that breaks off', 400, '{"error": {"message": "Wor', 'upstream_rejected'],
    ['an empty body', 400, '', 'upstream_rejected'],
    ['null', 400, 'null', 'upstream_rejected'],
    ['a number', 400, '7', 'upstream_rejected'],
    ['an empty list', 400, '[]', 'upstream_rejected'],
    ['an empty message', 400, openai({ message: '' }), 'upstream_rejected'],
    ['a message that is an object', 400, openai({ message: { a: 1 } }), 'upstream_rejected'],
    ['an error of null', 400, { error: null, message: 'No.' }, 'upstream_rejected', 'No.'],

    // Too long for the model's context.
    [
      'OpenAI, by its code',
      400,
      openai({ code: 'context_length_exceeded' }),
      'context_length_exceeded',
      'Words of the provider.',
    ],
    ...[
      "This model's maximum context length is 4096 tokens.",
      'prompt is too long: 210000 tokens > 200000 maximum',
      'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).',
      'too many tokens: 9000',
      'Too many input tokens',
      'the request exceeds the context window length',
      'input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000',
      "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
      'the request exceeds the available context size, try increasing it',
      'Prompt exceeds max length',
      'Invalid request: Your request exceeded model token limit: 8192',
      'Range of input length should be [1, 30720]',
      'Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097.',
    ].map((message): [string, number, unknown, ErrorCode, string] => [
      `by its words: ${message.slice(0, 24)}`,
      400,
      openai({ message }),
      'context_length_exceeded',
      message,
    ]),
    [
      'llama.cpp, by its type',
      400,
      openai({ type: 'exceed_context_size_error' }),
      'context_length_exceeded',
      'Words of the provider.',
    ],
    [
      'words about tokens with status 429 mean the rate limit',
      429,
      google(429, 'RESOURCE_EXHAUSTED', 'input token count quota'),
      'upstream_rate_limited',
    ],

    // Other mistakes of the client.
    ['a filter', 400, openai({ code: 'content_filter' }), 'content_filter', 'Words of the provider.'],
    [
      'a filter, Azure',
      400,
      {
        error: {
          message: 'The prompt was filtered.',
          type: null,
          param: 'prompt',
          code: 'content_filter',
          status: 400,
          innererror: { code: 'ResponsibleAIPolicyViolation', content_filter_result: { hate: { filtered: true } } },
        },
      },
      'content_filter',
      'The prompt was filtered.',
    ],
    ['too large', 413, openai({}), 'request_too_large', 'Words of the provider.'],
    [
      'no such deployment, Azure',
      404,
      { error: { code: 'DeploymentNotFound', message: 'The API deployment does not exist.' } },
      'model_not_found',
      'The API deployment does not exist.',
    ],
    ['no such path, Azure', 404, { error: { code: '404', message: 'Resource not found' } }, 'upstream_error'],
    [
      'no such model, by its code',
      404,
      openai({ code: 'model_not_found' }),
      'model_not_found',
      'Words of the provider.',
    ],
    [
      'no such model, by its type',
      404,
      { object: 'error', message: 'No.', type: 'NotFoundError', code: 404 },
      'model_not_found',
      'No.',
    ],
    [
      'no such model, Google',
      404,
      google(404, 'NOT_FOUND', 'models/x is not found'),
      'model_not_found',
      'models/x is not found',
    ],
    ['no such model, Ollama', 404, { error: "model 'x' not found" }, 'model_not_found', "model 'x' not found"],
    [
      'no such model, Mistral says 400',
      400,
      { object: 'error', message: 'Invalid model: x', type: 'invalid_model', code: '1500' },
      'model_not_found',
      'Invalid model: x',
    ],
    [
      'no such model, DeepSeek says 400',
      400,
      openai({ message: 'Model Not Exist' }),
      'model_not_found',
      'Model Not Exist',
    ],
    [
      'no such model, OpenRouter says 400',
      400,
      { error: { message: 'some/x is not a valid model ID', code: 400 } },
      'model_not_found',
      'some/x is not a valid model ID',
    ],
    ['no such path', 404, { detail: 'Not Found' }, 'upstream_error'],
    ['no such path, OpenAI', 404, openai({ message: 'Invalid URL (POST /v1/x)' }), 'upstream_error'],
    ['no such path, vLLM', 404, openai({ message: 'Not Found', type: 'NotFoundError' }), 'upstream_error'],
    ['no such path, as plain text', 404, '404 page not found', 'upstream_error'],
    ['no such path, an HTML page', 404, '<html>404</html>', 'upstream_error'],

    // The gateway's own account: hidden from the client.
    ['an invalid key', 401, openai({ code: 'invalid_api_key' }), 'upstream_auth'],
    ['an invalid key, Mistral', 401, { detail: 'Invalid API Key' }, 'upstream_auth'],
    [
      'an invalid key, Google says 400',
      400,
      google(400, 'INVALID_ARGUMENT', 'API key not valid. Please pass a valid API key.', [
        { reason: 'API_KEY_INVALID' },
      ]),
      'upstream_auth',
    ],
    [
      'an invalid key, xAI says 400',
      400,
      { code: 'Client specified an invalid argument', error: 'Incorrect API key provided: xa***99.' },
      'upstream_auth',
    ],
    ['an invalid key, Azure', 401, { error: { code: '401', message: 'Access denied.' } }, 'upstream_auth'],
    ['an invalid token, Azure', 401, { statusCode: 401, message: 'Unauthorized.' }, 'upstream_auth'],
    ['a revoked key, 403', 403, openai({ message: 'This key was revoked.' }), 'upstream_auth'],
    ['an invalid key, by its code', 403, openai({ code: 'invalid_api_key' }), 'upstream_auth'],
    ['failed authentication, by its type', 403, openai({ type: 'authentication_error' }), 'upstream_auth'],
    ['a token that has expired', 403, { message: 'The security token has expired' }, 'upstream_auth'],
    ['a suspended account', 403, openai({ message: 'Your account was suspended.' }), 'upstream_auth'],
    ...[
      openai({
        message: 'Country, region, or territory not supported',
        type: 'request_forbidden',
        code: 'unsupported_country_region_territory',
      }),
      { message: "You don't have access to the model with the specified model ID." },
      google(403, 'PERMISSION_DENIED', 'Not your file, or too many tokens for a keyboard.'),
      '<html>403</html>',
      '',
    ].map((body): [string, number, unknown, ErrorCode] => [
      'a forbidden request, or a blocked region',
      403,
      body,
      'upstream_forbidden',
    ]),
    [
      'a model that the project may not use',
      403,
      openai({ message: 'The project has no access to it.', code: 'model_not_found' }),
      'model_not_found',
      'The project has no access to it.',
    ],
    [
      'no credits, xAI says 403',
      403,
      { code: 'No permission', error: 'Your team has either used all available credits or reached its limit.' },
      'upstream_quota',
    ],
    ['an empty balance', 402, openai({ message: 'Insufficient Balance' }), 'upstream_quota'],
    ['a used-up quota, by its code', 429, openai({ code: 'insufficient_quota' }), 'upstream_quota'],
    ['a used-up quota, by its type', 429, openai({ type: 'insufficient_quota' }), 'upstream_quota'],

    // Retryable.
    ['a rate limit', 429, openai({ type: 'rate_limit_error' }), 'upstream_rate_limited'],
    [
      'a rate limit, Mistral',
      429,
      { object: 'error', message: 'Slow down', type: 'rate_limited', code: '1300' },
      'upstream_rate_limited',
    ],
    [
      'a limit of tokens per minute, Groq',
      413,
      openai({ code: 'rate_limit_exceeded', type: 'tokens' }),
      'upstream_rate_limited',
    ],
    ['no capacity, Groq', 498, openai({}), 'upstream_rate_limited'],
    ['a timeout', 408, openai({}), 'upstream_timeout'],
    ['a timeout, an HTML page', 504, '<html>504</html>', 'upstream_timeout'],
    ['overloaded', 503, openai({}), 'upstream_overloaded'],
    [
      'overloaded, Anthropic',
      529,
      { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } },
      'upstream_overloaded',
    ],
    ...[500, 501, 502, 520, 524, 599, 424, 405, 418, 451].map((status): [string, number, unknown, ErrorCode] => [
      `status ${status}`,
      status,
      openai({}),
      'upstream_error',
    ]),
  ])('%s (%i)', (_name, status, body, code, message) => {
    const failure = fail(status, body)
    expect(failure).toMatchObject({ code })
    expect(failure.message).toBe(message)
  })

  test('no provider error makes the client believe that its own key is wrong', () => {
    for (let status = 400; status < 600; status++) {
      const { code } = fail(status, openai({ code: 'invalid_api_key', type: 'authentication_error' }))
      expect([401, 403], `status ${status}`).not.toContain(ERRORS[code].status)
    }
  })

  test('the log has details that the client does not get', () => {
    expect(fail(500, openai({ message: 'engine 7 overheated', code: 'overheated' })).detail).toBe(
      'status 500, type invalid_request_error, code overheated: engine 7 overheated',
    )
    expect(fail(500, '').detail).toBe('status 500, type -, code -: ')
    expect(fail(503, 'upstream connect error or disconnect/reset before headers').detail).toContain('connect error')
    expect(fail(500, openai({ message: 'x'.repeat(5000) })).detail.length).toBeLessThan(1100)
  })

  test.each([
    ['messages[0].content', 'messages[0].content'],
    ['model', 'model'],
    ['a b', null],
    ['x'.repeat(101), null],
    ['http://10.0.0.7/', null],
    ['sk-secret-123456', null],
    [7, null],
    [null, null],
  ])('the parameter %j becomes %j', (param, shown) => {
    expect(fail(400, openai({ param })).param).toBe(shown)
  })

  test('only an error of the client names a parameter', () => {
    expect(fail(500, openai({ param: 'model' }))).not.toHaveProperty('param')
  })
})

describe('a message for a client', () => {
  const CANARIES = [
    'https://user:hunter2@provider.internal/v1/chat?key=abc',
    'http://10.0.0.7:8000/v1',
    'postgres://gateway@db:5432/x',
    'HTTPS://API.EXAMPLE.COM/V1',
    'api.openai.com',
    'my-resource.openai.azure.com:443',
    'llm.corp.example.co.uk',
    'vllm.default.svc.cluster.local:8000',
    'vllm-0:8000',
    'localhost:11434',
    'localhost',
    '10.11.12.13',
    '192.168.1.1:443',
    '[fe80::1ff:fe23:4567:890a]:8000',
    '::1',
    '2001:0db8:85a3:0000:0000:8a2e:0370:7334',
    'sk-proj-abcdefABCDEF123456',
    'sk-ant-api03-xyzXYZ-123456',
    'sk-ab*********************wxyz',
    'gsk_abcdef123456',
    'tg_live_0123456789abcdefghijABCDEFGHIJ012345',
    'AIzaSyA1234567890abcdefghijklmnopqrstuv',
    'AKIAIOSFODNN7EXAMPLE',
    'ya29.a0AfH6SMBx-abcdefghijkl',
    'hf_abcdefghijklmnopqrstuvwxyzABCDEFGH',
    'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r',
    'Bearer abc.def.ghi',
    'Basic dXNlcjpodW50ZXIy',
    'api_key=abc123',
    'X-Api-Key: canary-value-1',
    'token=tok123',
    'org-AbCdEf123456',
    'proj_AbCdEf123456',
    '0123456789abcdef0123456789abcdef',
    '123e4567-e89b-12d3-a456-426614174000',
    '/usr/lib/python3/dist-packages/vllm/engine.py',
    'arn:aws:bedrock:eu-central-1:123456789012:application-inference-profile/abcdef',
    'arn:aws-us-gov:iam::123456789012:role/gateway',
    '123456789012',
    'projects/quiet-harbour/locations/global',
    'project quiet-harbour',
    'Project: quiet-harbour',
    'project_number:41234567890',
    '/subscriptions/00000000-1111-2222-3333-444444444444/resourceGroups/ours/providers/accounts/mine',
    'POST /customers/ours/v1/chat/completions',
  ]

  test.each(CANARIES)('does not contain %s', canary => {
    for (const text of [
      canary,
      `Failed at ${canary}.`,
      `("${canary}")`,
      `'${canary}', which is bad`,
      `a,${canary};b`,
    ]) {
      const clean = cleanMessage(text)
      expect(clean, text).not.toContain(canary)
      // Nor does it contain an identifying part: the host of an address, the middle of a secret.
      expect(clean, text).not.toContain(canary.slice(Math.floor(canary.length / 3), Math.ceil((2 * canary.length) / 3)))
    }
  })

  test.each([
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
    'Invalid value for \'messages[0].content.text\': expected a string, e.g. "hello".',
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    'temperature must be between 0 and 2, at 12:30 it was 2.5; see /v1/responses',
    'The model gpt-4.1-mini does not support image_url (type: text). Ratio 3:2, std::vector.',
    'messages.1.content: Input should be a valid string',
    'Your project does not have access to this model. Try a project without limits (project: none).',
  ])('is unchanged if it has nothing to hide: %s', text => {
    expect(cleanMessage(text)).toBe(text)
  })

  test('has no line breaks and no invisible characters', () => {
    const clean = cleanMessage('a\r\ndata: {"x"}\u0000b\u001b[31mc\u0085d\u2028e\u2029f\u007fg')
    expect(cleanMessage('not \u202eevil\u2066 here\u009b31m')).toBe('not \\u202eevil\\u2066 here\\u009b31m')
    expect(clean).toBe('a data: {"x"}\\u0000b\\u001b[31mc d e f\\u007fg')
  })

  test('has at most 400 characters', () => {
    expect(cleanMessage('word '.repeat(200))).toHaveLength(400)
    expect(cleanMessage('word '.repeat(200)).endsWith('…')).toBe(true)
    expect(cleanMessage('x'.repeat(400))).toHaveLength(400)
  })

  test('is cleaned before it is shortened: a secret at the cut is still recognised', () => {
    const secret = 'sk-proj-abcdefABCDEF123456'
    for (let before = 360; before <= 400; before++) {
      expect(cleanMessage(`${'x '.repeat(before / 2)}${secret}`)).not.toContain('sk-proj')
    }
  })

  test.each([
    ['a', 'a'.repeat(100_000)],
    ['a-', 'a-'.repeat(50_000)],
    ['a.', 'a.'.repeat(50_000)],
    ['1.', '1.'.repeat(50_000)],
    ['a:', 'a:'.repeat(50_000)],
    ['/a', '/a'.repeat(50_000)],
    ['a=', 'key='.repeat(25_000)],
    ['a1', 'a1'.repeat(50_000)],
    ['ey', 'eyJ'.repeat(33_000)],
    ['::', ':'.repeat(100_000)],
    ['context', 'context '.repeat(12_000)],
    ['exceeds', 'exceeds the available '.repeat(5000)],
    ['blanks', `404:${' '.repeat(100_000)}x`],
  ])('is cleaned quickly in any form: %s', (_name, text) => {
    const start = performance.now()
    for (const status of [400, 403, 404]) fail(status, openai({ message: text }))
    // Takes milliseconds; a backtracking expression would take minutes.
    expectWithin(performance.now() - start, 500)
  })
})

describe('the time before a retry', () => {
  const LONGEST = 600_000
  test.each<[name: string, headers: Record<string, string>, ms: number | undefined]>([
    ['no header', {}, undefined],
    ['seconds', { 'retry-after': '20' }, 20_000],
    ['zero seconds', { 'retry-after': '0' }, 0],
    ['ten minutes', { 'retry-after': '600' }, LONGEST],
    ['far too many seconds', { 'retry-after': '1000000000' }, LONGEST],
    ['more seconds than a number can hold', { 'retry-after': '9'.repeat(400) }, undefined],
    ['a negative number', { 'retry-after': '-1' }, undefined],
    ['a fraction', { 'retry-after': '1.5' }, 1500],
    ['a fraction of a millisecond', { 'retry-after-ms': '20.4' }, 21],
    ['an exponent', { 'retry-after': '1e9' }, undefined],
    ['a word', { 'retry-after': 'soon' }, undefined],
    ['an empty header', { 'retry-after': '' }, undefined],
    ['two values', { 'retry-after': '1, 2' }, undefined],
    ['hexadecimal', { 'retry-after': '0x10' }, undefined],
    ['a date', { 'retry-after': 'Fri, 20 Nov 2026 12:00:30 GMT' }, 30_000],
    ['a date in the past', { 'retry-after': 'Fri, 20 Nov 2026 11:00:00 GMT' }, 0],
    ['a date far ahead', { 'retry-after': 'Wed, 21 Oct 2099 07:28:00 GMT' }, LONGEST],
    ['an invalid date', { 'retry-after': 'Fri, 99 Nov 2026 12:00:30 GMT' }, undefined],
    ['a date in another format', { 'retry-after': '2026-11-20T12:00:30Z' }, undefined],
    ['milliseconds', { 'retry-after-ms': '1234' }, 1234],
    ['milliseconds have priority', { 'retry-after-ms': '1234', 'retry-after': '20' }, 1234],
    ['invalid milliseconds', { 'retry-after-ms': 'x', 'retry-after': '20' }, 20_000],
    ['negative milliseconds', { 'retry-after-ms': '-5', 'retry-after': '20' }, 20_000],
    ['far too many milliseconds', { 'retry-after-ms': '999999999' }, LONGEST],
  ])('%s', (_name, headers, ms) => {
    expect(retryAfterOf(headers, NOW)).toBe(ms)
    expect(fail(503, openai({}), headers).retryAfterMs).toBe(ms)
    // A 429 always has a time: some client libraries do not retry a 429 without one.
    expect(fail(429, openai({}), headers).retryAfterMs).toBe(ms ?? 1000)
  })

  test.each<[words: string, ms: number]>([
    ['Rate limit reached. Please try again in 3s.', 3000],
    ['Please try again in 6ms. Visit the pages', 6],
    ['Please try again in 1.5s', 1500],
    ['try again in 7m12s', 432_000],
    ['try again in 2m', 120_000],
    ['try again in 2h59m56.5s', LONGEST],
    ['try again in 0s', 1000],
    ['try again in a while', 1000],
    ['try again in 20 seconds', 20_000],
    ['Please retry in 37.99s.', 37_990],
    ['Please retry after 26 seconds', 26_000],
    ['Please wait 1.5 minutes', 90_000],
    ['retry the request with 20 messages', 1000],
    ['try again in', 1000],
  ])('in words: %s', (message, ms) => {
    expect(fail(429, openai({ message })).retryAfterMs).toBe(ms)
    expect(fail(429, openai({ message }), { 'retry-after': '9' }).retryAfterMs).toBe(9000)
    expect(fail(400, openai({ message })).retryAfterMs).toBeUndefined()
  })

  test.each([
    [429, 1000],
    [503, 1000],
    [529, 1000],
    [500, 1000],
    [400, undefined],
    [401, undefined],
    [402, undefined],
    [404, undefined],
    [504, undefined],
  ])('status %i keeps the time before a retry: %s', (status, ms) => {
    expect(fail(status, openai({}), { 'retry-after': '1' }).retryAfterMs).toBe(ms)
  })
})

test('a parsed body is read like its text', () => {
  const body = openai({ code: 'x', param: 'model' })
  expect(detailsOf(body)).toEqual(errorDetails(Buffer.from(JSON.stringify(body))))
  expect(detailsOf(undefined)).toEqual({ message: null, type: null, code: null, param: null })
})

test('names that every JavaScript object inherits change nothing', () => {
  const details = errorDetails(
    Buffer.from('{"__proto__":{"message":"a"},"constructor":{"prototype":{"x":1}},"error":{"__proto__":{"type":"b"}}}'),
  )
  expect(details).toEqual({ message: null, type: null, code: null, param: null })
  expect(({} as { message?: string; x?: number }).message).toBeUndefined()
})
